"""Checkers for problems, definitions and remarks of [DEEP], and Lemmas 1, 7 and 15 which belong to them."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, OutOfRange
from icgd.mechanisms import compile as compile_program
from icgd.papers.deep.statements.bounds import forward_radius, printed_forward_radius
from icgd.papers.deep.statements.cases import (
    F64,
    UNIT,
    Case,
    autograd_gradient,
    fits,
    forward_setting,
    gap,
    make_case,
    matrices,
    packed,
    recursion,
    tanh_size,
    walk,
)
from icgd.papers.deep.statements.norms import (
    printed_relu_units,
    printed_smoothness,
    relu_units,
    relu_weight,
    smoothness,
    wave_weight,
)
from icgd.papers.theorem_table import Row, checks, judge
from icgd.problems import GD
from icgd.problems.activations import ACTIVATIONS
from icgd.transformer.blocks import unpack_block
from icgd.transformer.gadgets.fits.relu_sum import fit_relu_sum
from icgd.transformer.nn.stack.stack import ProductSublayer, Stack
from icgd.transformer.program import Program

STEPS = 6


def small() -> Case:
    """The example most rows use: N = 3, K = 4, d = 3."""
    return make_case((3, 4, 4, 3))


@checks("DEEP", "Problem 1, 2")
def problem_1() -> Row:
    """A stack that makes L steps of projected gradient descent.

    Statement: [DEEP] Problem 1
    Statement: [DEEP] Problem 2

    Differs from the paper: all N layers are bounded, and w_0 is given (see "zero initialisation").
    """
    its = small()
    V = its.matrices
    free = [*V[:-1], 1000 * V[-1]]
    B_v = max(float(W.norm(dim=1).max()) for W in free[:-1])
    B_x = float(its.X.norm(dim=1).max())
    claimed = printed_forward_radius(3, B_v, B_x, tanh_size)
    z = recursion(free, its.X, its.Y, torch.tanh, ACTIVATIONS["tanh"].derivative).z
    reached = float(z[-1].abs().max())
    program = its.program(n_relu=129)
    done = walk(its, program, STEPS)
    tokens = _after_a_step(its, program)
    block = unpack_block(tokens, program.layout)
    kept = {"x", "y", "one", "train"} | {f"weight{j}" for j in (1, 2, 3)}
    left = max(
        float(tokens[..., program.layout.slice(n)].abs().max()) for n in block.slots.keys() - kept
    )
    boxed = max(float(W.abs().max()) for w in done.weights for W in matrices(w))
    return judge(
        "Problem 1, 2",
        "W bounds the rows of layers 1..N-1, and after each block the tokens are [x; y; w; 0; 1; t]",
        refuted=reached > claimed,
        counterexample=f"(3.4) says j in [N-1]: an output layer of size 1000 is in W, and |z_N|={reached:.3g} "
        f"where a radius of {claimed:.3g} is claimed; Proj_W need not bound anything there",
        corrected=f"a box for all layers; {STEPS} steps, each against autograd's from the same weights",
        measured=done.worst[0],
        bound=done.worst[1],
        also=done.within and left == 0.0 and boxed <= its.box,
        errata=("DEEP D2",),
    )


def _after_a_step(its: Case, program: Program) -> Tensor:
    assert isinstance(program.step, Stack)
    return program.step(packed(program, its))


@checks("DEEP", "Definition 1, 10, Remark 1")
def definition_1() -> Row:
    """The N-layer network and p_i(j).

    Statement: [DEEP] Definition 1
    Statement: [DEEP] Definition 10
    Statement: [DEEP] Remark 1

    Differs from the paper: no; its last layer is activated too, which Appendix H cannot use.
    """
    its = make_case((5, 4, 4, 2))
    n_relu, radius = 129, 5.0
    r = fits("tanh", radius, n_relu)[0]
    program = its.program(n_relu=n_relu, knots="uniform", radius=radius)
    predicted = program.predict(its.X, its.init)
    p = recursion(its.matrices, its.X, its.Y, torch.tanh, ACTIVATIONS["tanh"].derivative).p
    setting = forward_setting(its, r.certificate.sup_error)
    eps = r.certificate.sup_error
    sizes = [t.shape[1] for t in p]
    return judge(
        "Definition 1, 10, Remark 1",
        "p(0) = x, p(j) = r(V_j p(j-1)), r on the output layer too; widths d_x, K, .., K, d_y",
        refuted=sizes != list(its.network.widths),
        counterexample="none; an activated output cannot reach targets outside the range of r",
        corrected="the prediction layers of a stack (tanh, 5-4-4-2) against torch, by Lemma 2",
        measured=float((predicted - p[-1]).norm(dim=1).max()),
        bound=setting.E_r * eps,
    )


@checks("DEEP", "Definition 2, 3, Lemma 1, 8, 15")
def lemma_1() -> Row:
    """The gradient as a product of diagonal and weight matrices, and as the recursion of s.

    Statement: [DEEP] Lemma 1
    Statement: [DEEP] Lemma 15
    Statement: [DEEP] Definition 2
    Statement: [DEEP] Definition 3

    Differs from the paper: no; slips of the proof (p(N-2) for p(N-1), I_K for I_d) are not taken over.
    """
    worst, bound, off = 0.0, 0.0, 0.0
    for widths in ((3, 4, 3), (3, 4, 4, 3), (5, 3, 3, 3, 2)):
        its = make_case(widths)
        act, V = ACTIVATIONS["tanh"], its.matrices
        terms = recursion(V, its.X, its.Y, act.apply, act.derivative)
        exact = autograd_gradient(V, its.X, its.Y, act.apply)
        literal = [_kronecker(V, terms.slopes, terms.p, terms.g, j) for j in range(len(V))]
        worst = max(worst, gap(literal, exact), gap(terms.gradient, exact))
        sizes = recursion(
            [W.abs() for W in V],
            its.X.abs(),
            its.Y,
            torch.abs,
            torch.ones_like,
            lambda p, y: 2 * (p.abs() + y.abs()),
        )
        operations = len(its.X) + len(V) * (max(widths) + 8)
        bound = max(bound, operations * UNIT * max(float(G.max()) for G in sizes.gradient))
        if widths[-3] == widths[-2] and len(widths) > 3:  # the proof's first line takes p(N-2)
            off = max(off, gap([act.apply(terms.p[-3] @ V[-1].T)], [terms.p[-1]]))
    return judge(
        "Definition 2, 3, Lemma 1, 8, 15",
        "grad L_n = 1/(2n) sum_i A_i, A_i(j) = (R(N-1) V_N .. R(j-1) [I (x) p(j-1)^T])^T u, which is "
        "[I (x) p(j-1)] s(j)",
        refuted=worst > bound,
        counterexample=f"none; D.1 begins with r(V_N p(N-2)), which is {off:.2g} away from p(N); (D.3) has "
        "I_K where V_N has d rows; (3.7) lets i run to N+1",
        corrected="as printed, both forms, three networks, d_x = d_y and not",
        measured=worst,
        bound=bound,
        also=off > 0.01,
    )


def _kronecker(V: list[Tensor], slopes: list[Tensor], p: list[Tensor], u: Tensor, j: int) -> Tensor:
    """The block of layer j+1 by Lemma 1, literally: Kronecker products and diagonal matrices."""
    total = torch.zeros(V[j].numel(), dtype=u.dtype)
    for i in range(len(u)):
        chain = torch.diag(slopes[-1][i])
        for k in range(len(V) - 1, j, -1):
            chain = chain @ V[k] @ torch.diag(slopes[k - 1][i])
        eye = torch.eye(len(V[j]), dtype=u.dtype)
        total += (chain @ torch.kron(eye, p[j][i].unsqueeze(0))).T @ u[i]
    return (total / (2 * len(u))).reshape(V[j].shape)


@checks("DEEP", "Definition 4")
def definition_4() -> Row:
    """(eps, R, H, C)-sums of ReLUs.

    Statement: [DEEP] Definition 4

    Differs from the paper: no.
    """
    sums = fits("gelu", 5.0, 64)
    t = torch.linspace(-5, 5, 20001, dtype=torch.float64)
    act = ACTIVATIONS["gelu"]
    missed = [
        float((fit(t) - f(t)).abs().max())
        for fit, f in zip(sums, (act.apply, act.derivative), strict=True)
    ]
    steep = max(float(fit.a.abs().sum(dim=1).max()) for fit in sums)
    k = missed.index(max(missed))
    return judge(
        "Definition 4",
        "g is (eps, R, H, C)-approximable: sum c_h relu(a_h . [z; 1]) within eps on [-R, R]^k, |a_h|_1 <= 1",
        refuted=steep > 1 + UNIT,
        counterexample="none; (D.10) and (D.13) replace |a|_1 by |a|_2, see Lemma 4",
        corrected=f"gelu and gelu' with H=64 on R=5: C={sums[0].C:.2g} and {sums[1].C:.2g}",
        measured=missed[k],
        bound=sums[k].certificate.sup_error,
    )


@checks("DEEP", "Lemma 7")
def lemma_7() -> Row:
    """How many ReLUs a smooth function takes.

    Statement: [DEEP] Lemma 7

    Differs from the paper: one derivative more; for k = 1 H = O(eps^(-1/2)) and C <= 7 C_l. For k = 2 nothing
    is shown here; the fits of losses in two variables are measured (mechanisms/stacks/joint_loss_fit.py).
    """
    frequency, radius, eps = 1000.0, 3.0, 1e-4
    needed = wave_weight(frequency)
    worst, good = 0.0, printed_smoothness(1) == 1
    units = printed = 0.0
    for name in ("tanh", "sigmoid", "softplus", "gelu"):
        act = ACTIVATIONS[name]
        t = torch.linspace(-radius, radius, 20001, dtype=F64)
        for f, bends in ((act.apply, act.bounds[:3]), (act.derivative, act.bounds[1:4])):
            C_l = max(float(f(t).abs().max()), bends[0] * radius, bends[1] * radius**2)
            H = relu_units(eps, C_l)
            fit = fit_relu_sum(f, radius, H - 1, second=bends[1], third=bends[2])
            worst = max(worst, float((fit(t) - f(t)).abs().max()))
            good = good and relu_weight(C_l) >= fit.C and printed_relu_units(eps, C_l) >= H
            units, printed = max(units, H), max(printed, printed_relu_units(eps, C_l))
    return judge(
        "Lemma 7",
        "C^s with s = ceil((k-1)/2) + 1 and R^i |g^(i)| <= C_l: H <= C(k) C_l^2 log(1 + C_l/eps)/eps^2, "
        "C <= C(k) C_l",
        refuted=needed > relu_weight(1.0),
        counterexample=f"k=1 gives s=1: sin({frequency:g} t)/{frequency:g} on [-1, 1] has C_l=1, and any sum "
        f"within half its amplitude has sum |c| >= {needed:.3g}, growing with the frequency: no constant C(1). "
        f"Lemmas 2 to 4 speak of C^2 and C^3, which is s+1 ({smoothness(1)} and {smoothness(2)})",
        corrected=f"s = ceil((k-1)/2) + 2; k=1: C <= 7 C_l, H <= {units:.0f} at eps={eps:g} (printed "
        f"{printed:.0e}); r and r' of four activations. k=2, losses: fits are measured, C(2) is not bounded",
        measured=worst,
        bound=eps,
        also=good,
        errata=("DEEP D15",),
    )


@checks("DEEP", "Remark 2")
def remark_2() -> Row:
    """Why the weights are kept in a bounded set.

    Statement: [DEEP] Remark 2

    Differs from the paper: no.
    """
    its = make_case((3, 4, 4, 3), lr=4.0, box=0.75, scale=0.3, output="linear")
    free = compile_program(its.network, GD(its.lr), method="stack", radius=5.0, n_relu=65)
    try:
        free.run(its.X, its.Y, init=its.init, steps=200)
        left_range = False
    except AssumptionViolated as error:
        left_range = isinstance(error, OutOfRange)
    done = walk(its, its.program(n_relu=65, radius=8.0), 40)
    act = ACTIVATIONS["tanh"]
    visited = [
        float(z.abs().max())
        for w in done.weights
        for z in recursion(matrices(w), its.X, its.Y, act.apply, act.derivative).z
    ]
    B_v = its.box * max(its.network.widths) ** 0.5
    B_x = float(its.X.norm(dim=1).max())
    return judge(
        "Remark 2",
        "sums of ReLUs need a bounded range, so the weights are projected on a bounded set",
        refuted=not left_range,
        counterexample="none: without a box the same run leaves the range of its fits and says so",
        corrected=f"box {its.box}, step size {its.lr}: |z| over 40 steps against R_1",
        measured=max(visited),
        bound=forward_radius(3, 4, B_v, B_x, tanh_size),
        also=done.within,
    )


@checks("DEEP", "Remark 3")
def remark_3() -> Row:
    """Whether multiplication layers are needed.

    Statement: [DEEP] Remark 3

    Differs from the paper: not for a step within eps; see stacks/backward.py. No ReLU layer multiplies
    arbitrary numbers exactly.
    """
    its, relu = small(), make_case((3, 4, 4, 3), "relu", scale=0.4)
    options = {"n_relu": 257, "products": "attention", "signal_radius": 16.0}
    done = walk(its, its.program(**options), STEPS)
    exact = walk(relu, relu.program(**options), STEPS)
    with_layers = walk(its, its.program(n_relu=257), STEPS)
    layers = its.program(**options).step
    assert isinstance(layers, Stack)
    kinds = {type(layer) for _, layer in layers.each()}
    return judge(
        "Remark 3",
        "attention and feed-forward layers cannot reach the goal of Lemma 5 without multiplication layers",
        refuted=exact.worst[0] <= exact.worst[1] < 1e-12 and ProductSublayer not in kinds,
        counterexample=f"two heads a unit give V^T s exactly; a ReLU gate multiplies by r' = 0 or 1: {STEPS} "
        f"steps of a ReLU network within {exact.worst[0]:.0e} of gradient descent, without an EWML",
        corrected=f"3N+4 plain layers; tanh with quarter squares (with EWMLs: {with_layers.worst[0]:.1e})",
        measured=done.worst[0],
        bound=done.worst[1],
        also=done.within and exact.within and layers.n_layers == 13,
        errata=("DEEP D7",),
    )
