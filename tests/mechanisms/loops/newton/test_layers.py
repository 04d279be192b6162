"""Newton's method as a looped transformer against M <- 2M - M S M written out in plain torch."""

from __future__ import annotations

import warnings
from itertools import pairwise

import pytest
import torch

import icgd
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.loops.newton.codec import NewtonCodec
from icgd.mechanisms.loops.newton.layers import NewtonBuilder
from icgd.transformer.blocks import pack_block

F64 = torch.float64
MODES = ("spectral", "sym", "four", "printed")
COLUMNS = {"spectral": 1e-11, "sym": 1e-8, "four": 1e-9, "printed": 1e-5}
"""Largest relative error of M_k x_i after 20 steps."""
PREDICTIONS = {"spectral": 1e-11, "sym": 1e-8, "four": 1e-9, "printed": 1e-5}
SIZES = ((1, 1), (1, 3), (5, 20), (20, 40), (10, 4), (6, 6))


def data(d, n, seed=0, outputs=None, queries=2):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=g, dtype=F64)
    shape = (d,) if outputs is None else (d, outputs)
    y = X @ torch.randn(*shape, generator=g, dtype=F64)
    y = y + 0.1 * torch.randn(*y.shape, generator=g, dtype=F64)
    return X, y, torch.randn(queries, d, generator=g, dtype=F64) / 2


def size(X):
    return float(torch.linalg.matrix_norm(X, 2)) ** 2


def schulz(X, alpha, steps):
    S = X.T @ X
    M = alpha * S
    for _ in range(steps):
        M = 2 * M - M @ S @ M
    return M


def program_for(X, factor=1.0, outputs=1, **options):
    n, d = X.shape[-2:]
    problem = icgd.LinearRegression(n_features=d, n_examples=n, n_outputs=outputs)
    return icgd.compile(problem, icgd.Newton(factor / size(X) ** 2), **options)


def columns(program, X, y, query, steps):
    """M_k x_i in the state, and the whole state by slot."""
    block, n, _ = program.codec.tokens(X, y.reshape(len(X), -1), query)
    tokens = program.entry(pack_block(block, program.layout, n, program.step.like))
    for _ in range(steps):
        tokens = program.step(tokens)
    slots = program.layout.unpack(tokens)
    return slots["u"][0 : 2 * len(X) : 2], slots


def off(made, exact):
    return float((made - exact).norm() / exact.norm())


# -- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("d", "n"), SIZES)
def test_columns_weights_and_predictions(d, n, mode):
    for seed in range(3):
        X, y, query = data(d, n, seed)
        if float(torch.linalg.cond(X)) > 10:
            continue  # what is left of the digits then has a test of its own
        program = program_for(X, mode=mode)
        M = schulz(X, 1 / size(X) ** 2, 20)
        run = program.run(X, y, steps=20, query=query)
        assert off(columns(program, X, y, query, 20)[0], X @ M) <= COLUMNS[mode]
        w = M @ X.T @ y
        assert run.weights.shape == (d,)
        assert off(run.weights, w) <= COLUMNS[mode]
        assert run.prediction.shape == (2, 1)
        largest = max(1.0, float(y.abs().max()))
        assert float((run.prediction[:, 0] - query @ w).abs().max()) <= PREDICTIONS[mode] * largest


def test_errors_are_those_of_the_mode():
    """Each mode is worth its digits: spectral < four < sym < printed."""
    X, y, query = data(20, 40)
    exact = X @ schulz(X, 1 / size(X) ** 2, 20)
    errors = [
        off(columns(program_for(X, mode=mode), X, y, query, 20)[0], exact)
        for mode in ("spectral", "four", "sym", "printed")
    ]
    assert errors == sorted(errors)
    assert errors[3] > 50 * errors[2] > 50 * errors[0]


def test_it_finds_the_least_squares_solution():
    X, y, query = data(5, 20, 2)
    best = torch.linalg.lstsq(X, y.unsqueeze(-1)).solution[:, 0]
    run = program_for(X).run(X, y, steps=30, query=query)
    assert off(run.weights, best) <= 1e-13
    assert float((run.prediction[:, 0] - query @ best).abs().max()) <= 1e-13


def test_auto_alpha_needs_more_steps_and_gets_there():
    X, y, _ = data(5, 20)
    program = icgd.compile(icgd.LinearRegression(5, 20), icgd.Newton())
    radius = icgd.LinearRegression(5, 20).radius
    alpha = 1 / (20 * radius**2) ** 2
    assert program.config["optimizer"]["alpha"] == alpha
    run = program.run(X, y, steps=30)
    assert off(run.weights, schulz(X, alpha, 30) @ X.T @ y) <= 1e-12
    assert off(run.weights, torch.linalg.lstsq(X, y.unsqueeze(-1)).solution[:, 0]) <= 1e-12


def test_the_residual_squares_at_every_step():
    X, y, query = data(4, 12, 1)
    program, eye = program_for(X), torch.eye(4, dtype=F64)
    left = [
        float(torch.linalg.matrix_norm(eye - columns(program, X, y, query, k)[0].T @ X, 2))
        for k in range(12)
    ]
    for before, after in pairwise(left):
        assert abs(after - before**2) <= 1e-13
    assert left[-1] < 1e-13


def test_history_is_the_path():
    X, y, _ = data(3, 9)
    run = program_for(X).run(X, y, steps=6, record="weights")
    assert len(run.history) == 6
    for k, w in enumerate(run.history, 1):
        assert off(w, schulz(X, 1 / size(X) ** 2, k) @ X.T @ y) <= 1e-13


# -- exact zeros ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_labels_queries_and_the_sink_stay_exactly_zero(mode):
    X, y, query = data(5, 12)
    _, slots = columns(program_for(X, mode=mode), X, y, query, 7)
    rest = torch.ones(2 * 12 + 3, dtype=torch.bool)
    rest[0:24:2] = False
    for name in ("u", "k"):
        assert bool((slots[name][rest] == 0).all())
    assert torch.equal(slots["k"][0:24:2], X)


@pytest.mark.parametrize("mode", MODES)
def test_a_query_changes_nothing_but_its_own_answer(mode):
    """Weights and answers are the same whatever else is asked, up to rounding of longer sums."""
    X, y, query = data(5, 12)
    program = program_for(X, mode=mode)
    alone = program.run(X, y, steps=8)
    asked = program.run(X, y, steps=8, query=torch.cat([query[:1], 2 * query]))
    one = program.run(X, y, steps=8, query=query[0])
    assert off(asked.weights, alone.weights) <= COLUMNS[mode]
    assert float((asked.prediction[0] - one.prediction[0]).abs().max()) <= PREDICTIONS[mode]
    assert alone.prediction is None


# -- shapes, executors, files ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_batches_and_several_outputs(mode):
    parts = [data(3, 8, seed, outputs=2, queries=4) for seed in range(3)]
    X, y, query = (torch.stack(group) for group in zip(*parts, strict=True))
    alpha = 1 / max(size(x) for x in X) ** 2
    program = icgd.compile(icgd.LinearRegression(3, 8, 2), icgd.Newton(alpha), mode=mode)
    run = program.run(X, y, steps=20, query=query)
    assert run.weights.shape == (3, 2, 3)
    assert run.prediction.shape == (3, 4, 2)
    for b in range(3):
        w = (schulz(X[b], alpha, 20) @ X[b].T @ y[b]).T
        assert off(run.weights[b], w) <= 10 * COLUMNS[mode]
        assert off(run.prediction[b], query[b] @ w.T) <= 10 * PREDICTIONS[mode]


@pytest.mark.parametrize("mode", MODES)
def test_executors_agree(mode):
    """To 1e-12 in spectral mode; others amplify the order of a sum to what they promise and no more."""
    X, y, query = data(4, 10)
    program = program_for(X, mode=mode)
    runs = [
        program.run(X, y, steps=12, query=query, executor=name)
        for name in ("structured", "sparse", "dense")
    ]
    assert torch.equal(runs[0].weights, runs[1].weights)
    bound = 1e-12 if mode == "spectral" else COLUMNS[mode]
    assert off(runs[2].weights, runs[0].weights) <= bound
    assert float((runs[2].prediction - runs[0].prediction).abs().max()) <= bound


@pytest.mark.parametrize("mode", ["spectral", "sym"])
def test_saved_programs_run_the_same(mode, tmp_path):
    X, y, query = data(3, 7)
    program = program_for(X, mode=mode)
    program.save_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path)
    runs = [p.run(X, y, steps=5, query=query) for p in (program, loaded)]
    assert torch.equal(runs[0].weights, runs[1].weights)
    assert torch.equal(runs[0].prediction, runs[1].prediction)


def test_weights_do_not_depend_on_data():
    problem = icgd.LinearRegression(3, 7)
    states = []
    for seed in range(2):
        program = icgd.compile(problem, icgd.Newton(0.01))
        X, y, _ = data(3, 7, seed)
        program.run(0.3 * X, y, steps=3)
        states.append(program.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_float32_is_measured():
    X, y, query = data(5, 20)
    w = schulz(X, 1 / size(X) ** 2, 20) @ X.T @ y
    run = program_for(X, dtype=torch.float32).run(X, y, steps=20, query=query)
    assert run.weights.dtype == torch.float32
    assert 1e-9 < off(run.weights.double(), w) <= 1e-5


# -- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sym", "printed"])
def test_layers_and_heads_of_the_theorem(mode):
    """One layer with two heads, one with two, two with at most two: as claimed."""
    program = icgd.compile(icgd.LinearRegression(5, 20), icgd.Newton(), mode=mode)
    counts = [
        (stack.n_layers, [c.heads for c in stack.counts() if c.kind == "attention"])
        for stack in (program.entry, program.step, program.readout)
    ]
    assert counts == [(1, [2]), (1, [2]), (2, [1, 2])]


def test_layers_and_heads_elsewhere():
    """four: twice the heads. spectral: one layer more at the start, one head per token with shared weights."""
    made = {}
    for mode in ("four", "spectral"):
        program = icgd.compile(icgd.LinearRegression(5, 20), icgd.Newton(), mode=mode)
        made[mode] = [
            (stack.n_layers, [c.heads for c in stack.counts() if c.kind == "attention"])
            for stack in (program.entry, program.step, program.readout)
        ]
    assert made["four"] == [(1, [4]), (1, [4]), (2, [1, 4])]
    assert made["spectral"] == [(2, [1]), (1, [1]), (2, [1, 1])]


# -- complaints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [2.0, 2.01, 50.0])
def test_alpha_out_of_range(factor):
    X, y, _ = data(5, 20)
    with pytest.raises(AssumptionViolated, match=r"alpha \|S\|\^2 = .* converges only below 2"):
        program_for(X, factor).run(X, y, steps=5)


def test_alpha_at_the_edge_does_not_converge_and_just_below_it_does():
    X, y, query = data(5, 20)
    eye = torch.eye(5, dtype=F64)
    left = {}
    for factor in (2.0, 1.99):
        u, _ = columns(program_for(X, factor), X, y, query, 20)
        left[factor] = float(torch.linalg.matrix_norm(eye - u.T @ X, 2))
    assert left[2.0] > 0.9
    assert left[1.99] < 1e-11
    run = program_for(X, 1.99).run(X, y, steps=20)
    assert off(run.weights, torch.linalg.lstsq(X, y.unsqueeze(-1)).solution[:, 0]) <= 1e-12


@pytest.mark.parametrize(
    "make",
    [
        lambda X: torch.cat([X[:, :4], X[:, :1]], dim=1),
        lambda X: torch.zeros_like(X),
        lambda X: X[:, :1] * torch.ones(5, dtype=F64),
    ],
)
def test_rank_deficient_data_are_refused(make):
    X, y, _ = data(5, 20)
    problem = icgd.LinearRegression(5, 20)
    with pytest.raises(AssumptionViolated, match="errors of M_k double at every step"):
        icgd.compile(problem, icgd.Newton(1e-4)).run(make(X), y, steps=5)


def test_why_rank_deficient_data_are_refused():
    """Without the check errors double at every step, and so do those of M in the plain iteration."""
    X, y, query = data(5, 20)
    X = X[:, :3] @ data(5, 3, 7)[0] / 2
    best = torch.linalg.pinv(X)
    at = (20, 24, 28)
    for mode in MODES:
        program = program_for(X, mode=mode)
        errors = [off(columns(program, X, y, query, k)[0], best.T) for k in at]
        assert 12 < errors[1] / errors[0] < 20
        assert 12 < errors[2] / errors[1] < 20
    plain = [off(schulz(X, 1 / size(X) ** 2, k), best @ best.T) for k in (30, 40, 50)]
    assert plain[2] > 100 * plain[1] > 1e4 * plain[0]


def test_fewer_examples_than_features_are_fine():
    X, y, _ = data(10, 4)
    run = program_for(X).run(X, y, steps=80)
    assert off(run.weights, torch.linalg.pinv(X) @ y) <= 1e-12


def conditioned(kappa, d=5, n=20):
    X, y, _ = data(d, n)
    U, _, V = torch.linalg.svd(X, full_matrices=False)
    s = torch.logspace(0, -0.5 * torch.log10(torch.tensor(kappa)).item(), d, dtype=F64)
    return U @ torch.diag(4 * s) @ V, y


@pytest.mark.parametrize(("mode", "kappa"), [("printed", 1e5), ("sym", 1e8), ("spectral", 1e13)])
def test_condition_numbers_beyond_a_mode_are_warned_about(mode, kappa):
    X, y = conditioned(kappa)
    with pytest.warns(UserWarning, match="condition number"):
        program_for(X, mode=mode).run(X, y, steps=5)


@pytest.mark.parametrize(("mode", "kappa"), [("printed", 1e2), ("sym", 1e4), ("spectral", 1e9)])
def test_others_are_not_and_deserve_it(mode, kappa):
    X, y = conditioned(kappa)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = program_for(X, mode=mode).run(X, y, steps=80)
    assert off(run.weights, torch.linalg.pinv(X) @ y) <= 1e-2


def test_ranges_are_named():
    X, y, query = data(3, 9)
    program = program_for(X)
    with pytest.raises(AssumptionViolated, match=r"\|x\| reaches .*x_radius="):
        program.run(100 * X, y, steps=3)
    with pytest.raises(AssumptionViolated, match=r"\|x\| reaches"):
        program.run(X, y, steps=3, query=1e6 * query)
    near = icgd.compile(icgd.LinearRegression(1, 1), icgd.Newton(1.0), mode="sym")
    with pytest.raises(AssumptionViolated, match="answering product"):
        near.run([[0.1]], [1.0], steps=3, query=[[3.0]])


def test_other_mistakes():
    X, y, query = data(3, 9)
    with pytest.raises(InvalidParameter, match=r"`lam` must be 0 .* sqrt\(n lam\)"):
        icgd.compile(icgd.LinearRegression(3, 9, lam=0.1), icgd.Newton())
    program = program_for(X)
    for name, arguments in {
        "X": (X[:5], y[:5]),
        "y": (X, y[:5]),
        "query": (X, y, query[:, :2]),
    }.items():
        with pytest.raises(InvalidParameter, match=f"`{name}`"):
            program.run(*arguments[:2], steps=3, query=arguments[2] if len(arguments) > 2 else None)
    with pytest.raises(InvalidParameter, match="`steps`"):
        program.run(X, y)
    with pytest.raises(InvalidParameter, match="`init`"):
        program.run(X, y, steps=1, init=torch.zeros(3))
    with pytest.raises(InvalidParameter, match="`mode`"):
        program_for(X, mode="exact")


def test_ridge_by_extra_rows():
    """The remedy for lam > 0 gives the ridge solution."""
    X, y, _ = data(3, 9)
    lam = 0.2
    rows = torch.cat([X, (9 * lam) ** 0.5 * torch.eye(3, dtype=F64)])
    run = program_for(rows).run(rows, torch.cat([y, y.new_zeros(3)]), steps=30)
    best = torch.linalg.solve(X.T @ X / 9 + lam * torch.eye(3, dtype=F64), X.T @ y / 9)
    assert off(run.weights, best) <= 1e-13


def test_the_parts_are_the_documented_ones():
    program = program_for(data(2, 5)[0])
    assert isinstance(program.codec, NewtonCodec)
    builder = NewtonBuilder(program.codec.problem, program.codec.options)
    assert [slot.name for slot in builder.layout][:4] == ["x", "k", "y", "u"]
    assert program.mask.replaces
