"""docs/errata.md, entries 40 to 44: a jump that no map follows, and four slips of sizes and symbols."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
import torch

import icgd
from icgd.mechanisms.cot_network.layer import working_layout
from icgd.papers.cot.section_3 import printed as statistics_printed
from icgd.papers.cot.section_4 import printed as printed
from icgd.papers.cot.section_4.examples import LR, example, program_for
from icgd.papers.cot.section_4.states import exact_blocks, exact_states, unwatched
from icgd.papers.measuring import gap

F64 = torch.float64
seeds = pytest.mark.parametrize("seed", range(3))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_map_is_near_every_update(d):
    near, far = printed.across_the_jump(d)
    assert near < 1e-17
    assert far == 1.0
    # Any continuous map has one value for both inputs, and is 1/2 away from one of the updates: ours is.
    net = icgd.Network((d, d), output="relu", bias=False)
    program = program_for(net)
    weights = [(torch.eye(d, dtype=F64), None)]
    y = torch.zeros(d, dtype=F64)
    errors, step = [], program.mask.steps()[0]
    for sign in (1.0, -1.0):
        x = torch.full((d,), sign * 2.0**-60, dtype=F64)
        start, wanted = exact_blocks(exact_states(net.spec, weights, x, y, LR), x, y)
        engine = unwatched(program)
        got = engine.dump(engine.step([engine.load(start[a]) for a in step.reads], step, 1))
        errors.append(gap(got.value("closed"), wanted[step.writes].value("closed")))
    assert sum(errors) >= 1 - program.step.slope * near
    assert max(errors) > 0.49


@pytest.mark.parametrize("z", [2.0**-60, 1e-3, 1.0])
def test_backward_blocks_have_no_jump(z):
    # F_N and F_i hold sigma' already, so what a backward step has to follow is continuous.
    net = icgd.Network((1, 1), output="relu", bias=False)
    program, one = program_for(net), torch.ones(1, dtype=F64)
    states = exact_states(net.spec, [(torch.full((1, 1), z, dtype=F64), None)], one, one, LR)
    _, wanted = exact_blocks(states, one, one)
    step = next(s for s in program.mask.steps() if s.kind == "y")
    live = {**exact_blocks(states, one, one)[0], **wanted}
    engine = unwatched(program)
    got = engine.dump(engine.step([engine.load(live[a]) for a in step.reads], step, 1))
    for slot in ("out", "inp", "weight"):
        assert gap(got.value(slot), wanted[("B", 1)].value(slot)) < 1e-13


@pytest.mark.parametrize("d", [1, 3, 5])
@seeds
def test_slope_by_s_has_no_x(d, seed):
    generator = torch.Generator().manual_seed(seed)
    w, x = (torch.randn(d, generator=generator, dtype=F64) for _ in range(2))
    y = torch.randn((), generator=generator, dtype=F64)
    s = (w.requires_grad_() @ x).requires_grad_()
    by_s, by_w = torch.autograd.grad(0.5 * (s - y) ** 2, (s, w))
    slope = statistics_printed.printed_slope(w.detach(), x, y)
    assert gap(slope, by_w) < 1e-14
    assert by_s.shape == ()
    assert gap(by_s, (s - y).detach()) == 0.0
    assert gap(slope, by_s.expand(d)) > 1e-3


def reading_error(head: icgd.SpectralHead, s: Decimal) -> Decimal:
    """What a head is off by at s over the reals, to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        levels = [Decimal(v) for v in head.geometry.levels()]
        beta = Decimal(head.geometry.beta)
        weights = [(beta * (2 * s * level - level * level)).exp() for level in levels]
        total = sum(w * level for w, level in zip(weights, levels, strict=True))
        return abs(total / sum(weights) - s)


@pytest.mark.parametrize("n_grid", [26, 32, 64])
def test_no_head_reads_without_error(n_grid):
    # eps = 0 is not small, it is exact: over the reals a head has an error, however many tokens it has.
    head = icgd.SpectralHead(1.0, n_grid=n_grid)
    errors = [reading_error(head, Decimal(k) / 7) for k in range(1, 7)]
    assert all(error > Decimal("1e-40") for error in errors)
    assert float(max(errors)) <= head.certificate().sup_error


@pytest.mark.parametrize("problem", [icgd.Ridge(1, lam=0.5), icgd.Lasso(1, lam=0.1)])
@pytest.mark.parametrize("n_grid", [32, 64])
def test_a_step_outgrows_every_softmax(problem, n_grid):
    # Both sides are analytic in the scale t of the prompt: equal on an interval is equal for all t. The
    # step grows like t^3; a softmax returns at most its largest value, which is linear in the prompt.
    program = icgd.compile(problem, icgd.GD(lr=0.5), radius=1.0, n_grid=n_grid)

    def moved(t):
        w, x = (torch.full(shape, t, dtype=F64) for shape in ((1,), (1, 1)))
        run = program.run(x, 0 * w, init=w, steps=1, watch=False, executor="dense")
        exact = w - 0.5 * problem.gradient(w, x, 0 * w)
        return float((w - run.weights).norm()), float((w - exact).norm())

    (before, exact_before), (after, exact_after) = moved(2.0**8), moved(2.0**12)
    assert math.log2(after / before) / 4 < 1.5
    assert math.log2(exact_after / exact_before) / 4 > 2.9


@pytest.mark.parametrize(("n", "d"), [(1, 2), (2, 3), (3, 5)])
@seeds
def test_a_penalty_is_no_loss_of_the_data(n, d, seed):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=generator, dtype=F64)
    y, w = (torch.randn(k, generator=generator, dtype=F64) for k in (n, d))
    # Gradients of losses of (w.x_i, y_i) are in the span of the x_i, whatever the loss; lam w is not.
    for slope in (torch.tanh, torch.sign, lambda v: v**3):
        assert statistics_printed.outside_the_span(X, slope(X @ w - y) @ X) < 1e-10
    assert statistics_printed.outside_the_span(X, w) > 1e-2
    # Two weights with the same data and other penalties: no function of (w.x, y) can tell them apart.
    across = w - torch.linalg.lstsq(X.T, w[:, None]).solution[:, 0] @ X
    assert gap(X @ (w + across), X @ w) < 1e-12
    # Ours: the penalty by the skip, data by heads.
    problem = icgd.Ridge(d, lam=0.7)
    program = icgd.compile(problem, icgd.GD(lr=0.1), radius=64.0)
    for start in (w, w + across):
        run = program.run(X, y, init=start, steps=1)
        assert gap(run.weights, start - 0.1 * problem.gradient(start, X, y)) < 1e-10


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_routed_input_has_two_blocks(d):
    case = example(d, 2)
    rows = printed.declared_rows(d)
    for Z, wanted in printed.typed_inputs(case.states, case.X[0], case.Y[0]).values():
        assert len(Z) == 2 * len(wanted) == 2 * rows
    # C.8 reads a tag in row 2d^2 + 6d + 2, which a block of D = 1 + 3d + d^2 rows does not have.
    assert 2 * d * d + 6 * d + 2 == 2 * rows > rows
    # Ours: tokens of two blocks go in, one comes out.
    program = program_for(case.network)
    layer = program.step.pre.dense()
    token = torch.zeros(2 * program.layout.width, dtype=F64)
    assert layer(token).shape == (working_layout(case.network.spec).width,)
    assert program.step.post.dense()(layer(token)).shape == (program.layout.width,)
