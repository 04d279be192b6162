"""icgd.verify: what it promises holds, and what is broken does not pass."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import icgd
from icgd.oracle import sgd_round, sgd_rounds
from icgd.verification.bounds.round import Arithmetic, round_bound
from icgd.verification.bounds.whole_run import expansion
from icgd.verification.probes.cot_network import probe_blocks, run_probes
from icgd.verification.probes.grid import check_grid

NETS = {
    "deep": icgd.Network((8,) * 7),
    "uneven": icgd.Network((3, 1, 7, 2)),
    "smallest": icgd.Network((1, 1)),
    "relu output": icgd.Network((4, 5, 3), output="relu"),
    "no bias": icgd.Network((5, 5, 5), bias=False),
}


def problem(net: icgd.Network, n: int, seed: int, dtype: torch.dtype = torch.float64):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, net.widths[0], generator=generator, dtype=torch.float64)
    Y = torch.randn(n, net.widths[-1], generator=generator, dtype=torch.float64)
    return X.to(dtype), Y.to(dtype), net.init(seed=seed, dtype=dtype)


def distance(a: list, b: list) -> float:
    pairs = [
        pair for left, right in zip(a, b, strict=True) for pair in zip(left, right, strict=True)
    ]
    return max(float((p - q).abs().max()) for p, q in pairs)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_every_round_is_within_its_bound(name: str, seed: int, executor: str) -> None:
    net = NETS[name]
    X, Y, init = problem(net, 8, seed)
    program = icgd.compile(net, icgd.SGD(lr=0.005))
    check = icgd.verify(program, X, Y, init=init, executor=executor)
    assert check.passed, check.notes
    assert check.max_error <= 1e-12
    assert len(check.rounds) == 8
    for r in check.rounds:
        assert r.round_error <= r.round_bound
        if not r.near_kink:
            assert r.round_bound <= 1e-9
        assert r.error <= r.global_bound


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": "hard", "n_grid": 64, "radius": 16.0},
        {"rho": 0.8},
        {"n_grid": 28},
        {"n_grid": 64, "radius": 64.0},
    ],
)
def test_bounds_hold_where_the_head_is_visibly_wrong(options: dict) -> None:
    net = icgd.Network((3, 4, 2))
    X, Y, init = problem(net, 6, 4)
    check = icgd.verify(icgd.compile(net, icgd.SGD(lr=0.02), **options), X, Y, init=init)
    # A hard grid's bound is above what a round changes: it holds, and shows nothing.
    assert check.verdict == ("inconclusive" if options.get("temperature") == "hard" else "passed")
    assert all(r.round_error <= r.round_bound for r in check.rounds)
    assert all(r.round_error <= r.round_bound for r in check.rounds)


def test_float32_reports_its_bound_and_its_kinks() -> None:
    net = icgd.Network((6, 8, 8, 2))
    X, Y, init = problem(net, 20, 0, torch.float32)
    check = icgd.verify(icgd.compile(net, icgd.SGD(lr=0.01), dtype=torch.float32), X, Y, init=init)
    assert check.passed
    assert check.max_error <= 1e-4
    kinks = any(r.near_kink for r in check.rounds)
    assert any("float32" in note for note in check.notes) == kinks
    assert (check.near_kink.count == 0) == (check.near_kink.first is None)


def test_a_batch_is_judged_problem_by_problem() -> None:
    net = icgd.Network((3, 4, 2))
    problems = [problem(net, 5, seed) for seed in range(3)]
    X, Y = (torch.stack([p[i] for p in problems]) for i in (0, 1))
    init = [
        (torch.stack([p[2][i][0] for p in problems]), torch.stack([p[2][i][1] for p in problems]))
        for i in range(2)
    ]
    program = icgd.compile(net, icgd.SGD(lr=0.05))
    together = icgd.verify(program, X, Y, init=init)
    alone = [icgd.verify(program, x, y, init=w) for x, y, w in problems]
    assert together.passed
    assert together.round_bound == pytest.approx(max(c.round_bound for c in alone), rel=1e-6)
    assert together.sgd_weights[0][0].shape == (3, 4, 3)


def test_numpy_data_and_epochs() -> None:
    net = icgd.Network((2, 3, 1))
    X, Y, init = problem(net, 4, 1)
    program = icgd.compile(net, icgd.SGD(lr=0.05))
    check = icgd.verify(program, X.numpy(), Y.numpy().astype(np.float32), init=init, epochs=3)
    assert len(check.rounds) == 12
    assert check.passed


class TestRoundBound:
    def machine(self, error: float) -> Arithmetic:
        return Arithmetic(lambda s: torch.full_like(s, error), 2.0**-53, 2.0**30)

    @pytest.mark.parametrize("seed", range(5))
    def test_covers_heads_with_the_worst_errors(self, seed: int) -> None:
        """Simulate a round whose heads err by up to e with random signs: never above the bound."""
        net, e, lr = icgd.Network((5, 6, 6, 3)), 1e-4, 0.05
        X, Y, weights = problem(net, 1, seed)
        bound = round_bound(net.spec, weights, X[0], Y[0], lr, self.machine(e))
        exact = sgd_round(net.spec, weights, X[0], Y[0], lr)
        generator = torch.Generator().manual_seed(seed)

        def head(v: torch.Tensor) -> torch.Tensor:
            signs = torch.rand(v.shape, generator=generator, dtype=v.dtype).sub(0.5).sign()
            return torch.where(v == 0, v, v + e * signs)

        for _ in range(50):
            rough = self.rough_round(net, weights, X[0], Y[0], lr, head)
            assert distance(rough, exact) <= bound.bound

    def rough_round(self, net, weights, x, y, lr, head):
        read, z_all, value = [], [], x
        for i, (W, b) in enumerate(weights, 1):
            read.append(head(value))
            z = W @ read[-1] + b
            z_all.append(z)
            value = z if net.spec.is_linear(i) else z.relu()
        signal, new = value - y, []
        for i in range(net.n_layers, 0, -1):
            W, b = weights[i - 1]
            delta = signal if net.spec.is_linear(i) else signal * (z_all[i - 1] > 0)
            new.append((W - lr * torch.outer(delta, read[i - 1]), b - lr * delta))
            signal = W.T @ head(delta)
        return new[::-1]

    def test_is_not_vacuous_in_depth(self) -> None:
        """Norm products would give 1e-4 and worse here; errors carried with their signs do not."""
        net = icgd.Network((20,) * 10)
        X, Y, weights = problem(net, 1, 0)
        bound = round_bound(net.spec, weights, X[0], Y[0], 1e-3, self.machine(2e-12))
        assert bound.bound <= 1e-10

    def test_a_unit_at_the_kink_is_counted_and_paid_for(self) -> None:
        net = icgd.Network((1, 1, 1), bias=False)
        one = torch.ones(1, 1, dtype=torch.float64)
        x, y = torch.tensor([1e-13], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64)
        at_kink = round_bound(net.spec, [(one, None), (one, None)], x, y, 0.1, self.machine(1e-12))
        away = round_bound(
            net.spec, [(one, None), (one, None)], x + 1.0, y, 0.1, self.machine(1e-12)
        )
        assert (at_kink.near_kink, away.near_kink) == (1, 0)

    def test_zero_error_leaves_only_rounding(self) -> None:
        net = icgd.Network((4, 4, 2))
        X, Y, weights = problem(net, 1, 2)
        assert round_bound(net.spec, weights, X[0], Y[0], 0.01, self.machine(0.0)).bound < 1e-12


class TestGlobalBound:
    @pytest.mark.parametrize("seed", range(5))
    def test_expansion_covers_every_neighbour(self, seed: int) -> None:
        net, lr, radius = icgd.Network((3, 5, 4, 2)), 0.05, 1e-3
        X, Y, weights = problem(net, 1, seed)
        covered = expansion(net.spec, weights, X[0], Y[0], lr, radius)
        base = sgd_round(net.spec, weights, X[0], Y[0], lr)
        generator = torch.Generator().manual_seed(seed)

        def shifted(t: torch.Tensor) -> torch.Tensor:
            noise = torch.rand(t.shape, generator=generator, dtype=t.dtype).sub(0.5).sign()
            return t + radius * noise

        for _ in range(30):
            near = [(shifted(W), shifted(b)) for W, b in weights]
            moved = sgd_round(net.spec, near, X[0], Y[0], lr)
            assert distance(moved, base) <= covered

    def test_no_distance_stays_no_distance(self) -> None:
        net = icgd.Network((2, 2))
        X, Y, weights = problem(net, 1, 0)
        assert expansion(net.spec, weights, X[0], Y[0], 0.1, 0.0) == 0.0
        assert expansion(net.spec, weights, X[0], Y[0], 0.1, math.inf) == math.inf

    def test_a_vacuous_bound_is_called_vacuous(self) -> None:
        net = icgd.Network((8,) * 7)
        X, Y, init = problem(net, 30, 0)
        check = icgd.verify(icgd.compile(net, icgd.SGD(lr=0.02)), X, Y, init=init)
        assert any("vacuous" in note for note in check.notes)


class TestVerdict:
    def verified(self, change) -> object:
        net = icgd.Network((3, 4, 2))
        program = icgd.compile(net, icgd.SGD(lr=0.05))
        change(program)
        X, Y, init = problem(net, 3, 0)
        return icgd.verify(program, X, Y, init=init)

    def test_a_wrong_learning_rate_fails(self) -> None:
        def change(program: icgd.Program) -> None:
            program.optimizer = icgd.SGD(lr=0.0501)

        check = self.verified(change)
        assert not check.passed
        assert not all(r.round_error <= r.round_bound for r in check.rounds)

    def test_nan_fails(self) -> None:
        def change(program: icgd.Program) -> None:
            bank = program.step.attention.banks["inputs"]
            bank.output["weight_forward>z"].data[0, 0] = math.nan

        check = self.verified(change)
        assert not check.passed
        assert any(not p.passed for p in check.probes)

    def test_a_damaged_grid_fails(self) -> None:
        def change(program: icgd.Program) -> None:
            program.step.attention.levels.data[0] *= 1.001

        check = self.verified(change)
        assert not check.passed
        assert not check.grid.passed

    def test_the_table_and_the_dictionary_say_the_same(self) -> None:
        check = self.verified(lambda program: None)
        assert check.to_dict()["passed"] is True
        assert check.table().title == "icgd verify: passed"
        assert {row.kind for row in check.probes} == {"x", "forward", "y", "backward"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_grid": 28},
        {"n_grid": 64},
        {"rho": 0.8},
        {"temperature": "hard", "n_grid": 16},
        {"dtype": torch.float32},
        {"radius": 1e5},
    ],
)
def test_compiled_grids_keep_their_promise(options: dict) -> None:
    program = icgd.compile(icgd.Network((2, 2)), icgd.SGD(lr=0.1), **options)
    assert check_grid(program).passed


def test_probes_reach_the_edge_of_the_range() -> None:
    program = icgd.compile(icgd.Network((3, 4, 2)), icgd.SGD(lr=0.1))
    largest = 0.0
    for probe, _, _ in probe_blocks(program, n_sets=1):
        for block in (probe.top, probe.bottom):
            largest = max([largest, *(float(t.abs().max()) for t in block.slots.values())])
    assert largest == program.radius
    assert all(result.passed for result in run_probes(program, n_sets=4, seed=7))


RADII = [2.0**-30, 1e-3, 0.1, 1.0, 1.5, 2.0, 100.0]


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("output", ["linear", "relu"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_probes_stay_in_the_range_they_were_compiled_for(radius, output, dtype) -> None:
    """Also where the range is small: an untouched program must not fail for a bias it never promised."""
    net = icgd.Network((2, 2, 1), output=output)
    program = icgd.compile(net, icgd.SGD(0.05), radius=radius, dtype=dtype)
    edge = float(torch.tensor(program.radius, dtype=dtype))
    for probe, _, _ in probe_blocks(program, n_sets=4):
        for block in (probe.top, probe.bottom):
            for slot in ("out", "inp"):
                value = torch.as_tensor(block.slots.get(slot, 0.0))
                assert float(value.abs().max()) <= edge
        assert float(probe.expected["out"].abs().max()) <= edge
        assert float(probe.expected["inp"].abs().max()) <= edge
    failed = [result for result in run_probes(program, n_sets=4, seed=3) if not result.passed]
    assert failed == []


def test_an_untouched_program_for_small_numbers_passes() -> None:
    net = icgd.Network((2, 2, 1))
    program = icgd.compile(net, icgd.SGD(0.05), radius=1.0)
    X, Y, init = problem(net, 8, 0)
    check = icgd.verify(program, 0.2 * X, 0.2 * Y, init=[(0.5 * W, b) for W, b in init])
    assert check.passed, (check.notes, [p for p in check.probes if not p.passed])


def test_the_oracle_is_torch_itself() -> None:
    """sgd_rounds against gradients by hand on a net small enough to write down."""
    net = icgd.Network((1, 1), bias=False)
    w, x, y = 2.0, 3.0, 1.0
    tensors = [torch.tensor([[v]], dtype=torch.float64) for v in (w, x, y)]
    (after,) = sgd_rounds(net.spec, [(tensors[0], None)], tensors[1], tensors[2], 0.1)
    assert float(after[0][0]) == pytest.approx(w - 0.1 * (w * x - y) * x)


NETWORK, REGRESSION = icgd.Network((2, 1)), icgd.LinearRegression(2, 4)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("probe_sets", -1, "`probe_sets` must be an integer >= 0"),
        ("probe_sets", 1.5, "`probe_sets` must be an integer >= 0"),
        ("probe_sets", 10**20, r"`probe_sets` must be an integer <= 2\^62"),
        ("seed", 1.5, r"`seed` must be an integer from -2\^63"),
        ("seed", True, r"`seed` must be an integer from -2\^63"),
        ("seed", 2**63, r"`seed` must be an integer from -2\^63"),
        ("rounds", 10**400, r"must be an integer <= 2\^62"),
    ],
)
@pytest.mark.parametrize("kind", ["network", "stack", "linear model", "loop"])
def test_counts_and_seeds_that_are_none_are_refused_alike(kind, name, value, sentence):
    problem, optimizer, rounds = {
        "network": (NETWORK, icgd.SGD(0.1), "epochs"),
        "stack": (NETWORK, icgd.GD(0.1), "steps"),
        "linear model": (icgd.Ridge(2, lam=0.1), icgd.GD(0.1), "steps"),
        "loop": (REGRESSION, icgd.GD(0.1), "steps"),
    }[kind]
    X = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2)
    given = {rounds: 1, **({"init": NETWORK.init(seed=0)} if problem is NETWORK else {})}
    given[rounds if name == "rounds" else name] = value
    with pytest.raises(icgd.InvalidParameter, match=sentence):
        icgd.verify(icgd.compile(problem, optimizer), X, X[:, :1].sum(dim=1), **given)
