"""Errata of [ALGO], Sections 2.2 and 3.1: what is printed fails as documented, what replaces it holds."""

from __future__ import annotations

import math

import pytest
import torch

import icgd
from icgd.mechanisms.loops.common.parts import SHARP, MlpBuilder, binary_codes
from icgd.papers.algo.statements import regression as rows
from icgd.papers.algo.statements import regression_printed as printed
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.stack import unwatched
from icgd.verification.bounds.loop import loop_bound

F64 = torch.float64
ROWS = {
    "Equation 1, 2": (rows.equations_1_2, "reading"),
    "Lemma A.2": (rows.lemma_a2, "reading"),
    "Theorem 3.1": (rows.theorem_31, "slip"),
    "ridge after Theorem 3.1": (rows.ridge, "holds"),
    "Section 2.2, fusion": (rows.fusion, "holds"),
}
SIZES = [(3, 7), (5, 20), (20, 40)]


@pytest.mark.parametrize("name", ROWS)
def test_every_row_passes_with_the_documented_verdict(name, row_of):
    checker, verdict = ROWS[name]
    row = row_of(checker)
    assert row.statement == name
    assert row.passed
    assert row.printed_verdict == verdict


@pytest.mark.parametrize("name", [name for name in ROWS if "fusion" not in name])
def test_a_program_with_another_step_size_does_not_pass(name, monkeypatch):
    def wrong(case, mode="spectral"):
        return icgd.compile(case.problem, icgd.GD(1.001 * case.lr), mode=mode)

    monkeypatch.setattr(printed.Case, "program", wrong)
    assert not ROWS[name][0]().passed


def test_three_parts_are_not_taken_for_one_layer(monkeypatch):
    monkeypatch.setattr(rows, "fuse", lambda program: program)
    assert not rows.fusion().passed


# -- Equations 1 and 2 ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_softmax_over_keys_is_meant(size):
    case = printed.example(*size)
    program = case.program("sym")
    assert abs(rows.by_hand(program, case, 3) - rows.exact(case, 3)) <= 1e-8
    assert not abs(rows.by_hand(program, case, 3, axis=1) - rows.exact(case, 3)) <= 1e-2


def test_brackets_of_equation_2_do_not_match():
    assert printed.EQUATION_2.count("(") == 6
    assert printed.EQUATION_2.count(")") == 8
    assert printed.EQUATION_2.count("TF_pre") == 2


# -- Lemma A.2 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("c", [1e-2, 1e-4])
def test_the_printed_layer_ascends(size, c):
    """Added to the residuals themselves, c dL/dA x is the right direction with the wrong sign."""
    case = printed.example(*size)
    r = printed.start(case)
    moved = printed.printed_step(case, r, c, 31.9, second=True) - r
    n = size[1]
    gradient = (-case.Y.T @ case.phi / n) @ case.phi.T
    step = moved[0 : 2 * n : 2]
    assert torch.allclose(
        step / c, gradient[0], rtol=0, atol=20 * c * float(gradient.abs().max()) + 1e-9
    )
    assert printed.loss(case, r + moved) > printed.loss(case, r)
    # With a weight of its own, -lr/c, it is descent.
    assert printed.loss(case, r - case.lr / c * moved) < printed.loss(case, r)


@pytest.mark.parametrize("seed", range(3))
def test_one_head_alone_adds_a_constant(seed):
    """The sum of all residuals, to every token; also to those whose query is 0."""
    case = printed.example(5, 20, seed=seed)
    r = printed.start(case)
    alone = printed.printed_step(case, r, 1e-6, 31.9, second=False) - r
    assert torch.allclose(alone, r.sum().expand_as(alone), atol=1e-4 * float(r.abs().sum()))
    both = printed.printed_step(case, r, 1e-6, 31.9, second=True) - r
    assert not both[1::2].any()


def test_arbitrarily_close_ends_at_rounding():
    """The best scale of the printed pair of heads leaves 1e-8; a smaller one more."""
    case = printed.example(5, 20)
    errors = []
    for scale in (1e-3, 1e-5, 1e-7, 1e-9, 1e-11):
        program = icgd.compile(case.problem, icgd.GD(case.lr), mode="printed", scale=scale)
        errors.append(abs(rows.answer(program, case, 1) - rows.exact(case, 1)))
    assert min(errors) > 1e-9
    assert errors.index(min(errors)) not in (0, len(errors) - 1)


@pytest.mark.parametrize("mode", printed.MODES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("steps", [1, 20])
def test_two_heads_descend_within_their_certificate(mode, size, steps):
    case = printed.example(*size)
    program = case.program(mode)
    off = abs(rows.answer(program, case, steps) - rows.exact(case, steps))
    assert off <= loop_bound(program, case.phi, case.Y, case.asked, steps)


# -- Theorem 3.1 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_without_the_last_token_there_is_no_sink(size):
    case = printed.example(*size)
    r = printed.start(case, sink=False)
    moved = printed.printed_step(case, r, 1e-4, 31.9, second=True, sink=False) - r
    assert float(moved.abs().max()) > 1e6


@pytest.mark.parametrize("size", SIZES)
def test_a_large_temperature_blurs_the_copy(size):
    """softmax(z / temperature): close copies need a small one."""
    case = printed.example(*size)
    warmer = [printed.copy_error(case, 1 / temperature) for temperature in (1e-3, 1.0, 1e3)]
    assert warmer[0] == 0
    assert warmer[0] < warmer[1] < warmer[2]
    assert warmer[2] > 0.5 * float(case.Y.abs().max())


def leftover(n: int, beta: float, C: float) -> float:
    """What a copy at inverse temperature beta leaves in ANS, times e^C: what the loop's sink then adds."""
    g = torch.Generator().manual_seed(0)
    codes = binary_codes(n + 1).double().repeat_interleave(2, dim=0)
    y = torch.zeros(2 * n + 2, dtype=torch.float64)
    y[1 : 2 * n : 2] = torch.randn(n, generator=g, dtype=torch.float64)
    return abs(float((y @ torch.softmax(beta * codes @ codes.T, dim=0))[-1])) * math.exp(C)


@pytest.mark.parametrize("beta", [60.0, 372.0, 400.0])
def test_the_sinks_value_must_be_exactly_zero(beta):
    """e^C multiplies what a copy leaves in ANS: codes differ by 2, and e^(-2 beta) must underflow."""
    left = leftover(20, beta, 300.0)
    assert (left > 1e6) == (beta == 60.0)
    assert (left == 0) == (math.exp(-2 * beta) == 0)


def test_sharp_enough_for_both_precisions():
    for dtype in (torch.float64, torch.float32):
        assert float(torch.tensor(-SHARP, dtype=dtype).exp()) == 0


@pytest.mark.parametrize("size", SIZES)
def test_reading_out_by_codes_changes_the_labels(size):
    case, n = printed.example(*size), size[1]
    r = printed.start(case)
    labels = printed.printed_post(case, r)[1 : 2 * n : 2]
    assert torch.allclose(labels, case.Y[:, 0] + r[0 : 2 * n : 2], atol=1e-12)
    program = case.program()
    run = program.run(case.X, case.Y, steps=3, query=case.query, record="trace")
    kept = run.trace[-1].block.value("y")[1 : 2 * n : 2]
    assert torch.equal(kept, case.Y)


def test_dividing_by_n_is_a_weight_and_a_product_is_not_piecewise_linear():
    """x/N exactly for a fixed N; a ReLU network has x times another row only approximately."""
    layout = Layout([Slot("x", (), each=True), Slot("out", (), each=True)])
    layer = MlpBuilder(layout, F64).write("out", [("x", 1 / 8)]).layer()
    x = torch.linspace(-3, 3, 7, dtype=F64)
    tokens = layout.pack({"x": x}, batch=(7,))
    assert torch.equal(layout.unpack(layer.dense(tokens, unwatched))["out"], x / 8)
    # Along the diagonal u * u has the same second difference everywhere; units have it at kinks only.
    u = torch.linspace(-1, 1, 33, dtype=F64)
    bend = (u * u)[2:] - 2 * (u * u)[1:-1] + (u * u)[:-2]
    assert float(bend.min()) > 1e-3


def test_gates_with_a_bias_are_not_exact():
    """relu(z + B on - B) loses what z has below an ulp of B; relu(z - B off) does not."""
    z, B = torch.rand(1000, generator=torch.Generator().manual_seed(0), dtype=F64), 1e6
    biased = (z + B * 1.0 - B).relu() - (-z + B * 1.0 - B).relu()
    exact = (z - B * 0.0).relu() - (-z - B * 0.0).relu()
    assert float((biased - z).abs().max()) > 1e-11
    assert torch.equal(exact, z)


def test_steps_not_the_network_decide_how_close_the_truth_is():
    """Exact descent is as far from A phi(x) as the transformer: far for ill-conditioned features."""
    slow = printed.example(20, 40, layers=2)
    truth = float(slow.A @ slow.asked)
    off = abs(rows.answer(slow.program(), slow, 200) - truth)
    assert off > 1e-3
    assert off == pytest.approx(abs(rows.exact(slow, 200) - truth), abs=1e-12)
    quick = printed.example(3, 60)
    assert abs(rows.answer(quick.program(), quick, 200) - float(quick.A @ quick.asked)) <= 1e-12


def test_one_head_copies_where_two_are_claimed():
    program = printed.example(5, 20, layers=2).program("sym")
    entry, loop, readout = rows.parts(program)
    assert [s.n_layers for s in (entry, loop, readout)] == [3, 1, 1]
    assert [max(c.heads for c in s.counts()) for s in (entry, loop, readout)] == [1, 2, 1]


# -- ridge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.05, 0.5])
def test_shrinking_residuals_is_not_ridge(lam):
    case = printed.example(5, 20, lam=lam)
    assert abs(float(printed.shrunk_residuals(case, 50)) - rows.exact(case, 50)) > 1e-3
    for mode in printed.MODES:
        program = case.program(mode)
        off = abs(rows.answer(program, case, 50) - rows.exact(case, 50))
        assert off <= rows.ridge_bound(program, case, 50)


# -- fusion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_heads_that_are_not_selected_spoil_the_answer(size):
    case = printed.example(*size)
    assert abs(float(printed.unselected(case, 10)) - rows.exact(case, 10)) > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_a_loop_of_one_head_works_once_and_is_unstable(seed):
    case = printed.example(5, 20, seed=seed)
    first, tenth = (
        abs(float(printed.one_head_loop(case, 1e-4, 31.9, t)) - rows.exact(case, t))
        for t in (1, 10)
    )
    assert first <= 1e-6
    assert tenth > 1.0
