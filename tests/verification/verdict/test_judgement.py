"""No verdict is "passed" unless the bounds could have rejected a program that does not train."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import pytest
import torch

import icgd
from icgd.transformer.mask_rules import StateMask
from icgd.verification.verdict.judgement import Part, Sight, doubts, sight

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


# -- the rule -------------------------------------------------------------------------------------


NAMES = ["W_1", "W_2"]
CLEAR, BLIND = Sight((0.1, 0.1), (False, False)), Sight((0.2, 0.1), (True, False))
HALF = Sight((math.inf, 0.1), (False, False))
STILL = Sight((math.inf, math.inf), (False, False))


@dataclass(frozen=True)
class Round:
    number: int
    round_bound: float = 1e-12
    near_kink: int = 0
    sight: Sight = CLEAR


def rounds(n: int, *changed: Round) -> list[Round]:
    given = {r.number: r for r in changed}
    return [given.get(k, Round(k)) for k in range(1, n + 1)]


@pytest.mark.parametrize(
    "made",
    [
        rounds(5),
        rounds(3, Round(3, 1.0, 1, BLIND)),  # a kink that leads nowhere else
        rounds(9, *(Round(k, 1.0, 0, BLIND) for k in range(2, 10))),  # a run that converges
        rounds(4, *(Round(k, sight=STILL) for k in (2, 3, 4))),
        [],
    ],
)
def test_bounds_below_updates_leave_no_doubt(made: list[Round]) -> None:
    assert doubts(made, NAMES, remedy="") == []


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (rounds(9, Round(4, math.inf)), "infinite in 1 of 9 rounds, first in 4"),
        (rounds(9, Round(2, math.nan)), "infinite in 1 of 9 rounds, first in 2"),
        (
            [Round(1, 1.0, 0, BLIND), *(Round(k, 1.0, 0, HALF) for k in (2, 3))],
            "The bound on W_1 is larger than 10% of its update in every round",
        ),
        ([Round(1, sight=STILL), Round(2, sight=STILL)], "No round moved the weights"),
    ],
)
def test_every_doubt_names_its_cause_and_the_remedy(made: list[Round], sentence: str) -> None:
    (found,) = doubts(made, NAMES, remedy="Raise n_grid.")
    assert sentence in found
    assert any(
        word in found for word in ("Raise n_grid.", "Standardise the data", "Verify with data")
    )


@pytest.mark.parametrize("drift", [0.02, math.inf, math.nan])
def test_a_run_that_met_a_kink_must_end_where_the_exact_one_does(drift: float) -> None:
    kinked = rounds(100, Round(7, 1.0, 1, BLIND))
    (found,) = doubts(kinked, NAMES, remedy="", drift=drift)
    assert "Rounding could decide a ReLU in 1 of 100 rounds, first 7" in found
    assert "Standardise the data" in found
    assert doubts(kinked, NAMES, remedy="", drift=0.01) == []
    assert doubts(rounds(100), NAMES, remedy="", drift=drift) == []  # bounds decide


@pytest.mark.parametrize(
    ("moved", "bound", "seen"),
    [
        (2.0, 0.1, (0.05, False)),
        (2.0, 1.0, (0.5, True)),  # it trains, but how well?
        (0.0, 1e-3, (math.inf, False)),  # nothing is to happen
        (1e-9, 2e-9, (2.0, True)),  # something, however small
        (1e-4, 1e-3, (10.0, True)),
        (1e-4, math.inf, (math.inf, True)),
        (0.0, math.inf, (math.inf, True)),
    ],
)
def test_what_a_round_shows(moved: float, bound: float, seen: tuple[float, bool]) -> None:
    before = torch.ones(2, dtype=F64)
    exact = before + torch.tensor([0.0, moved], dtype=F64)
    part = Part(before, exact, exact, bound)
    alone = sight([part])
    assert alone.ratios[0] == pytest.approx(seen[0], rel=1e-6)
    assert alone.blind == (seen[1],)
    # Another layer that is bounded well does not make up for it.
    other = Part(before, before + 1, before + 1, 1e-12)
    both = sight([part, other])
    assert both.ratios == (*alone.ratios, 1e-12)
    assert both.blind == (seen[1], False)


def test_steps_below_rounding_of_single_precision_show_nothing() -> None:
    """W_1 moves by 6e-8 at most, and leaving it alone is within its bound of 1.4e-7."""
    net = icgd.Network((2, 3, 1))
    init = [(W.float(), b.float()) for W, b in net.init(seed=2)]
    X, Y = normal(4, 2).float(), normal(4, 1, seed=1).float()
    checks = [
        icgd.verify(icgd.compile(net, icgd.SGD(lr=lr), dtype=torch.float32), X, Y, init=init)
        for lr in (1e-7, 1e-5)
    ]
    assert [check.verdict for check in checks] == ["inconclusive", "passed"]
    assert (
        "The bound on W_1, W_2 is larger than 10% of its update in every round"
        in checks[0].notes[0]
    )
    assert checks[1].resolution < 0.1 < 1 < checks[0].resolution


def test_a_pass_says_how_much_it_shows() -> None:
    net = icgd.Network((2, 3, 1))
    X, Y, init = normal(4, 2), normal(4, 1, seed=1), net.init(seed=2)
    check = icgd.verify(icgd.compile(net, icgd.SGD(lr=0.05)), X, Y, init=init)
    assert check.passed
    assert check.resolution < 1e-9
    assert check.to_dict()["resolution"] == check.resolution
    assert f"resolution={check.resolution:.2g}" in repr(check)


# -- programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_features_as_small_as_rounding_show_nothing(executor: str) -> None:
    """Features of size 1e-14: rounding decides every ReLU, and weights end up far from those of SGD."""
    net = icgd.Network((3, 5, 1))
    program = icgd.compile(net, icgd.SGD(lr=0.05))
    X, Y = 1e-14 * normal(24, 3), normal(24, 1, seed=1)
    check = icgd.verify(program, X, Y, init=net.init(seed=2), executor=executor)
    assert check.max_error > 1e-3
    assert check.verdict == "inconclusive"
    assert not check.passed
    assert check.near_kink.count > 24
    assert any("Standardise the data" in note for note in check.notes)
    assert check.to_dict()["verdict"] == "inconclusive"
    assert check.table().title == "icgd verify: INCONCLUSIVE"
    assert "inconclusive" in repr(check)


def test_kinks_in_a_tenth_of_the_rounds_show() -> None:
    """Ten rows of a hundred are as small as rounding and weigh much: weights end up far from SGD's."""
    net = icgd.Network((2, 8, 1))
    X, Y = normal(100, 2), normal(100, 1, seed=1)
    X[:10] *= 1e-14
    Y[:10] *= 100
    check = icgd.verify(icgd.compile(net, icgd.SGD(lr=0.01)), X, Y, init=net.init(seed=0))
    assert check.max_error > 0.1
    assert check.verdict == "inconclusive", check


def test_parts_that_never_train_show() -> None:
    """Tiny features in single precision: SGD moves b_1 and W_2, the program does not."""
    net = icgd.Network((2, 8, 1))
    X = (1e-6 * normal(60, 2)).float()
    Y = X.abs().sum(1, keepdim=True) * 1e6
    init = [(W.float(), b.float()) for W, b in net.init(seed=0)]
    program = icgd.compile(net, icgd.SGD(lr=1e-4), dtype=torch.float32)
    check = icgd.verify(program, X, Y, init=init, epochs=5)
    assert check.max_error > 1e-3
    assert check.verdict == "inconclusive", check


def test_every_part_is_held_to_its_own_bound() -> None:
    part = Part(torch.zeros(2), torch.ones(2), torch.tensor([1.0, 1.2]), torch.tensor([0.5, 0.1]))
    assert not part.within


def test_an_infinite_bound_is_no_pass() -> None:
    """o_1 = 15.9999999 of 16: with a coarse head's error a query could leave the range."""
    net = icgd.Network((1, 1, 1))
    program = icgd.compile(net, icgd.SGD(lr=1e-3), radius=16.0, rho=0.7)
    init = [
        (torch.tensor([[15.9999999]], dtype=F64), torch.zeros(1, dtype=F64)),
        (torch.tensor([[0.5]], dtype=F64), torch.zeros(1, dtype=F64)),
    ]
    check = icgd.verify(program, [[1.0]], [[7.0]], init=init)
    assert check.round_bound == math.inf
    assert check.verdict == "inconclusive"
    assert any("infinite in 1 of 1 rounds" in note and "radius" in note for note in check.notes)


def test_a_sound_run_with_a_rare_kink_passes() -> None:
    net = icgd.Network((3, 6, 1))
    program = icgd.compile(net, icgd.SGD(lr=0.02))
    X, Y = normal(30, 3), normal(30, 1, seed=1)
    X[7] = 0  # with biases still 0 every unit of this row sits on its kink
    check = icgd.verify(program, X, Y, init=net.init(seed=3), executor="dense")
    assert check.verdict == "passed", check.notes


def idle(program: icgd.Program) -> icgd.Program:
    """The same program with a step that changes nothing."""
    made = copy.deepcopy(program)
    made.codec._like = [made.step.like]

    class Nothing(StateMask):
        def steps(self) -> tuple:
            return ()

    made.mask = Nothing()
    return made


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("n_relu", [8, 64, 512])
def test_a_program_that_does_not_train_never_passes(activation: str, n_relu: int) -> None:
    net = icgd.Network((2, 3, 1), activation)
    program = icgd.compile(net, icgd.GD(lr=0.1), method="stack", n_relu=n_relu)
    X, Y, init = normal(6, 2), normal(6, 1, seed=1), net.init(seed=2)
    assert not icgd.verify(idle(program), X, Y, init=init, steps=2).passed


def test_data_that_teach_nothing_show_nothing() -> None:
    """Targets are the network's own outputs: every program that leaves its weights alone is right."""
    problem = icgd.Ridge(2, lam=0.0)
    program = icgd.compile(problem, icgd.GD(lr=0.5))
    X, w = normal(6, 2), torch.tensor([0.5, -1.0], dtype=F64)
    check = icgd.verify(program, X, X @ w, init=w, steps=3)
    assert check.verdict == "inconclusive"
    assert any("something to learn" in note for note in check.notes)


def test_a_fit_that_is_too_coarse_for_the_step_shows_nothing() -> None:
    net = icgd.Network((2, 2, 1), "tanh")
    X, Y, init = normal(6, 2), normal(6, 1, seed=1), net.init(seed=2)
    verdicts = []
    for n_relu in (4, 512):
        program = icgd.compile(net, icgd.GD(lr=1e-3), method="stack", n_relu=n_relu)
        verdicts.append(icgd.verify(program, X, Y, init=init, steps=1).verdict)
    assert verdicts == ["inconclusive", "passed"]


def test_wrong_is_failed_whatever_is_in_doubt() -> None:
    net = icgd.Network((2, 2, 1), "tanh")
    program = icgd.compile(net, icgd.GD(lr=1e-3), method="stack", n_relu=4)
    program.step.sublayers["loss"].groups["loss"].w_out.data.mul_(-1)
    X, Y, init = normal(6, 2), normal(6, 1, seed=1), net.init(seed=2)
    check = icgd.verify(program, X, Y, init=init, steps=1)
    assert check.verdict == "failed"
    assert check.table().title == "icgd verify: FAILED"
