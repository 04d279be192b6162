"""Checkers for the parts of Appendix A of [BRIDGE], each alone: derivatives, sums over examples, mask."""

from __future__ import annotations

from collections.abc import Callable

from icgd.papers.bridge.statements import printed as printed
from icgd.papers.bridge.statements.counts import Units as UnitCounts
from icgd.papers.bridge.statements.counts import heads, matrices, reverse_heads
from icgd.papers.bridge.statements.orders import exponent
from icgd.papers.bridge.statements.printed import LR, Case, far, make_case, spread
from icgd.papers.bridge.statements.stack import (
    counted_heads,
    formula_is_the_count,
    stack_program,
    step_error,
)
from icgd.papers.bridge.statements.theorems import checked
from icgd.papers.theorem_table import Row, checks, judge
from icgd.transformer.nn.stack.head_family import ACTIVATIONS
from icgd.transformer.nn.stack.stack import AttentionSublayer, unwatched


def power_of_width(layers: int, size: Callable[[tuple[int, ...]], float]) -> float:
    """How a count grows with the width of all hidden layers."""
    return exponent(lambda e: size((2, *[round(1 / e)] * (layers - 1), 1)), 1e-4)


@checks("BRIDGE", "Theorem 2, heads")
def heads_of_a_layer() -> Row:
    """How many heads are enough, and the trade-off after Remark 2.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: another construction than its proof's, which needs n K M where n K^2 M is allowed.
    """
    depths, units = range(2, 7), 200
    case = make_case((3, 4, 4, 1), n_relu=units)
    error, bound = step_error(case, units)
    counted = counted_heads(stack_program((3, 4, 4, 1), "softplus", units))
    powers = [power_of_width(n, lambda w: float(max(reverse_heads(w)))) for n in depths]
    forward = [power_of_width(n, lambda w: float(matrices(w))) for n in depths]
    allowed = max(
        max(reverse_heads((k, *[k] * (n - 1), 1), units, units)) / (n * k * k * units)
        for n in depths
        for k in (2, 8, 64, 1024)
    )
    return judge(
        "Theorem 2, heads",
        "O(n K^2 / eps^2) heads a layer suffice, so that equal heads mean n K^2 constant",
        refuted=allowed > 1 or max(powers) > 2.01,
        counterexample="none: an upper bound, met by the backpropagating stack with products by attention. "
        f"(3, 4, 4, 1), {units} units a fit, compiled: {max(counted)} heads at most, {sum(counted)} in all; "
        f"counted for n = 2..6, heads grow like K^{min(powers):.2f} to K^{max(powers):.2f} and are at most "
        f"{allowed:.2f} n K^2 M. Forward mode, the paper's own way, needs K to the "
        + ", ".join(f"{p:.2f}" for p in forward),
        corrected="3n + 4 plain layers, heads by a formula equal to compiled counts; one step",
        measured=error,
        bound=bound,
        also=formula_is_the_count() and formula_is_the_count("relu"),
    )


@checks("BRIDGE", "A, derivative heads")
def derivative_heads() -> Row:
    """s r'(t) for every derivative.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: query side; a slot for every (k, i, j, l); sums over k in [K_{n-1}].
    """
    case = make_case((3, 4, 4, 1))
    layout, b = case.builder.layout, case.builder
    tokens, where = case.tokens(), layout.index("d2")
    placed = printed.derivative_heads(case, 1).sparse(tokens, unwatched)[:, where]
    ours = b.derivatives(1)["new1"].sparse(tokens, unwatched)[:, where]
    exact = printed.exact_derivative(case)
    fused = [far(printed.one_slot_per_weight(case, k), exact) for k in range(4)]
    stored = case.until("descend")[:, layout.index("d3")][:, 0, : exact[0].numel()]
    counted = sum(
        f.n_heads for _, s in b.step().each() if isinstance(s, AttentionSublayer) for f in s.each()
    )
    units = UnitCounts(b.value.n_units, b.product.n_units, b.identity.n_units)
    return judge(
        "A, derivative heads",
        "queries constant, keys [s_ij; pred_k; 1]; s_ij has no index k, sums run over k in [K_n]",
        refuted=spread(placed) < 1e-13 and far(placed, ours) > 0.1 and min(fused) > 0.05,
        counterexample=f"every token gets one value, off by {far(placed, ours):.2f}; with ideal parts and one "
        f"s_ij for all k the gradient is off by {min(fused):.2f} to {max(fused):.2f}; [K_n] has one element",
        corrected=f"d pred / dW_1 in every token against autograd; {counted} heads",
        measured=far(stored, exact.flatten(1)),
        bound=_derivative_bound(case),
        also=counted == sum(heads((3, 4, 4, 1), units)),
        errata=("BRIDGE T6", "BRIDGE T8"),
    )


def _derivative_bound(case: Case) -> float:
    """Two products, each off by its certificate, between matrices of these sizes."""
    (_, _), (W_2, _), (W_3, _) = case.weights
    fit, value = (f.certificate.sup_error for f in (case.builder.product, case.builder.value))
    below = float(W_2.abs().max()) * fit
    # r' <= 1, and |s r''| |error of z_2|: |s| <= |W_2| max r' |x|, |r''| <= 1/4 for softplus.
    shifted = float(W_2.abs().max()) / 4 * float(W_2.abs().sum(1).max()) * value
    return float(W_3.abs().sum()) * (fit + below + shifted) + 1e-14


@checks("BRIDGE", "A, last heads")
def last_heads() -> Row:
    """The sum over examples.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: g_j and the derivative both on the key side, factor -lr (N+1)/(2N).
    """
    case = make_case((3, 4, 4, 1))
    n, exact = len(case.X), case.exact()[-1][0]
    wrong, right = (printed.last_heads(case, printed=p) for p in (True, False))
    long = printed.last_heads(case, printed=False, factor=-LR * (n + 1) / n)
    ratio = (long[0] - case.weights[-1][0]) / (exact - case.weights[-1][0])
    check = checked((3, 4, 4, 1), "tanh")
    true, first, second = (
        t.reshape(-1)[0]
        for t in (printed.gradient_of_last(case), *((case.weights[-1][0] - wrong[:2]) / LR))
    )
    return judge(
        "A, last heads",
        "queries hold g_i, keys the derivative v_j; values -eta (N+1)/N; the gradient of L_N has 1/N",
        refuted=spread(wrong) > 0.1
        and far(wrong, exact.expand_as(wrong)) > 0.1
        and far(ratio, 2 + 0 * ratio) < 1e-6,
        counterexample=f"g_i sum_j v_j, in each token another: first entry of the gradient {true:.3f}, in "
        f"token 0 {first:.3f}, in token 1 {second:.3f}. And the loss has 1/(2N): with 1/N the step is "
        f"{float(ratio.mean()):.6f} times as long",
        corrected="both on the key side, -eta (N+1)/(2N)",
        measured=max(check.max_round_error, far(right, exact.expand_as(right))),
        bound=check.round_bound,
        also=check.passed,
        errata=("BRIDGE T4", "BRIDGE T9"),
    )


@checks("BRIDGE", "A, mask of the loss")
def loss_mask() -> Row:
    """Units that a token which asks must not open.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: ReLU units with |a|_1 <= 1 or a shift above all they can be asked.
    """
    radius = 4.0
    leaks = {
        s: [printed.masked_output(s, radius, shift)[0] for shift in (radius, 40.0)]
        for s in ACTIVATIONS
    }
    case = make_case((3, 4, 4, 1))
    residual = case.until("descend")[-1, case.builder.layout.index("residual")]
    return judge(
        "A, mask of the loss",
        "g_i = sum beta sigma(a.[pred; y; 1] - R_2 (1 - t)) is 0 for t = 0",
        refuted=min(first for first, _ in leaks.values()) > 1 and leaks["tanh"][1] > 1,
        counterexample=f"output at t = 0 for R_2 = {radius:g} and for 40: "
        + ", ".join(f"{s} {a:.1f} and {b:.0e}" for s, (a, b) in leaks.items())
        + "; tanh goes to minus the sum of beta, not to 0",
        corrected="ReLU units, shift 1024: g of the token that asks",
        measured=float(residual.abs().max()),
        bound=0.0,
        also=leaks["relu"][1] == 0.0,
        errata=("BRIDGE T7",),
    )
