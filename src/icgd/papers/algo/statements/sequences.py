"""Checkers for Lemmas A.1 and A.3 and Theorems 3.2 and 3.3 of [ALGO]: as printed, then ours."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from icgd.mechanisms import compile
from icgd.mechanisms.loops.common.parts import binary_codes
from icgd.mechanisms.loops.common.shift_codes import shift_codes
from icgd.mechanisms.loops.series.series_layers import lags
from icgd.papers.algo.statements import readings as readings
from icgd.papers.algo.statements import sequences_printed as printed
from icgd.papers.algo.statements.sequences_printed import ChainCase, SeriesCase
from icgd.papers.measuring import gap
from icgd.papers.theorem_table import Row, checks, judge
from icgd.problems import GD, Autoregression
from icgd.transformer.blocks import pack_block
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program import Program
from icgd.verification.bounds.loop import loop_bound, slots_after

SIZES = (2, 5, 41, 141, 1000)
LIMITS = {("series", "spectral"): 1e-12, ("series", "sym"): 1e-8, ("chain", "sym"): 2e-8}
"""Bars of the issue: prediction errors after 200 and 20 steps, and after 50."""


@checks("ALGO", "Lemma A.1")
def lemma_a1() -> Row:
    """Quasi-orthogonal codes.

    Statement: [ALGO] Lemma A.1

    Differs from the paper: no; but lengths are free in it, so that two entries do, and +-1 codes of
    ceil(log2 N) entries have margin 2 without any luck.
    """
    epsilon = 5.0
    enough = [printed.random_codes(n, 8 * math.ceil(math.log2(n) + 1), seed=0) for n in SIZES]
    margins = [printed.margin(codes) for codes in enough]
    # Any margin grows with the square of the length.
    stretched = [
        printed.margin(math.sqrt(2 * epsilon / m) * c) for c, m in zip(enough, margins, strict=True)
    ]
    quasi_orthogonal = all(margin > epsilon for margin in stretched)
    same = [printed.margin(printed.random_codes(n, binary_codes(n).shape[1], 0)) for n in SIZES]
    plane = min(printed.margin(printed.circle_codes(n, epsilon)) for n in SIZES)
    ours = [binary_codes(n) for n in SIZES]
    shapes = [(n, math.ceil(math.log2(n))) for n in SIZES]
    return judge(
        "Lemma A.1",
        "N vectors of O(log N) entries with p_i.p_i > p_i.p_j + eps",
        refuted=not quasi_orthogonal,
        counterexample="none: random signs, 8 (log2 N + 1) entries, lengthened: margin >= "
        f"{min(stretched):.3g} for eps={epsilon:g}, N up to {SIZES[-1]}. Lengths are free: two entries "
        f"give {plane:.3g}",
        corrected="+-1 codes of ceil(log2 N) entries, margin 2 exactly (random ones of that size: "
        f"{max(same[2:]):g} at N >= {SIZES[2]})",
        measured=max(abs(printed.margin(codes) - 2.0) for codes in ours),
        bound=0.0,
        also=[tuple(codes.shape) for codes in ours] == shapes,
    )


def copy_error(program: Program, problem: Autoregression, x: Tensor) -> float:
    """Largest |lag_i - x_{t-i}| with x = 0 before the start, over all copies and tokens."""
    session = program.codec.session(x, None, init=None, epochs=None, steps=1, padded=False)
    slots = slots_after(program, session, "filter")
    n = problem.n_steps + 1
    wrong = [gap(slots[f"lag{i}"][i:n], x[: n - i]) for i in lags(problem.order)]
    wrong += [float(slots[f"lag{i}"][:i].abs().max()) for i in lags(problem.order)]
    wrong += [float(slots[f"lag{i}"][n:].abs().max()) for i in lags(problem.order)]
    return max(wrong)


@checks("ALGO", "Lemma A.3")
def lemma_a3() -> Row:
    """Copying the previous tokens.

    Statement: [ALGO] Lemma A.3

    Differs from the paper: its prompt is lost in the text. Here codes are rotary, so that a shift is
    linear, and every copy has a gate; with p_{t-i} in the tokens any codes do.
    """
    n, order = SIZES[3], 5
    width = shift_codes(n).width
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    residual, share = [], []
    for i in range(1, order):
        codes = printed.random_codes(n, width, seed=i)
        S, off = printed.best_shift(codes, i)
        wrong = (printed.copies_by(codes, S, x)[i:] - x[: n - i]).abs().amax(dim=1)
        residual.append(off)
        share.append(float((wrong > 1e-3).double().mean()))
    problem = Autoregression(3, order, n - 1)
    program = compile(problem, GD(0.1))
    session = program.codec.session(x, None, init=None, epochs=None, steps=1, padded=False)
    before = float(slots_after(program, session, "copy")["lag1"][0].abs().max())
    codes = printed.random_codes(n + order - 1, width, seed=0)
    stored = readings.copies(x, order - 1, codes)
    exact = [torch.equal(stored[i:, i - 1], x[: n - i]) for i in range(1, order)]
    empty = [not stored[:i, i - 1].any() for i in range(1, order)]
    return judge(
        "Lemma A.3",
        "q heads with queries p_{t-i} and keys p_t, a linear image of quasi-orthogonal codes",
        refuted=min(residual) > 1.0 and min(share) > 0.1,
        counterexample=f"{n} random codes of {width} entries: the best matrix misses p_(t-i) by "
        f"{min(residual):.2g}, and {min(share):.0%}..{max(share):.0%} of the copies are of other tokens; "
        f"before the start the softmax mixes tokens ({before:.2g} where 0 belongs). With p_(t-i) in the "
        "tokens and an indicator for each copy the same codes copy exactly",
        corrected=f"rotary codes of {width} entries, a rotation as the query, and a gate for each copy",
        measured=copy_error(program, problem, x),
        bound=0.0,
        also=before > 1e-3 and all(exact) and all(empty),
        errata=("ALGO C1", "ALGO C2"),
    )


def series_error(case: SeriesCase, mode: str, steps: int) -> tuple[float, float]:
    """Error of the predicted x_{N+1} against exact gradient descent, and its bound."""
    features, targets = case.features[:-1], case.x[case.problem.order :]
    lr = steady_lr(features)
    program = compile(case.problem, GD(lr), mode=mode)
    query = case.features[-1]
    exact = printed.descend(features, targets, lr, steps) @ query
    run = program.run(case.x, None, steps=steps)
    assert run.prediction is not None
    bound = loop_bound(program, features, targets, query, steps)
    return gap(run.prediction[0], exact), bound


def steady_lr(features: Tensor) -> float:
    """1 / lambda_max."""
    return len(features) / float(torch.linalg.matrix_norm(features, 2)) ** 2


def sinkless_error(case: SeriesCase) -> float:
    """Error of one step at token N on the tokens x_0 .. x_N alone, heads (+c, -c)."""
    features, targets = case.features[:-1], case.x[case.problem.order :]
    lr = steady_lr(features)
    program = compile(case.problem, GD(lr), mode="sym")
    session = program.codec.session(case.x, None, init=None, epochs=None, steps=1, padded=False)
    (block,) = session.prompt.values()
    assert isinstance(program.entry, Stack)
    assert isinstance(program.step, Stack)
    tokens = pack_block(block, program.layout, session.n_columns, program.step.like)
    predicted = program.layout.unpack(program.step(program.entry(tokens)[:-1]))["r"][-1]
    return gap(predicted, printed.descend(features, targets, lr, 1) @ case.features[-1])


@checks("ALGO", "Theorem 3.2")
def theorem_32() -> Row:
    """AR(q) with representation.

    Statement: [ALGO] Theorem 3.2

    Differs from the paper: a last token is sink and answer slot. It does not say where labels come from and
    what comes before the start: successors come from the next token, and only whole windows count.
    """
    wave = printed.waves(30)
    off = {name: gap(x, wave.follows) for name, x in printed.predictions(wave).items()}
    rest = printed.waves(30, at_rest=True)
    from_zero = gap(printed.predictions(rest)["from_start"], rest.follows)
    case = printed.noisy_series(4, 3, 40, (12, 8), 0)
    no_sink = sinkless_error(case)
    spectral, bound = series_error(case, "spectral", 200)
    sym, sym_bound = series_error(case, "sym", 20)
    return judge(
        "Theorem 3.2",
        "x_t stands beside Phi(x_{t+1-q:t}), gradient descent regresses, token N answers x_{N+1}",
        refuted=min(off[name] for name in ("same_token", "previous_q", "from_start")) > 1e-2
        and no_sink > 1e6,
        counterexample=f"x_0..x_N without a further token: one step is off by {no_sink:.0e}. Readings, on "
        f"an exact AR(2) with regressions solved: off by {off['same_token']:.2g} with x_t as the label "
        f"beside its own window, {off['previous_q']:.2g} with the previous q tokens asked at token N "
        f"(answers x_N), {off['from_start']:.2g} with t = 1..N and zeros before the start ({from_zero:.0e} "
        f"if the series began at rest); {off['corrected']:.0e} with whole windows and successors",
        corrected=f"q-1 copies, L layers, a head for the successor; spectral, T=200 (sym, T=20: {sym:.0e})",
        measured=spectral,
        bound=bound,
        also=off["corrected"] < 1e-12
        and from_zero < 1e-12
        and sym <= sym_bound
        and sym <= LIMITS["series", "sym"]
        and spectral <= LIMITS["series", "spectral"],
        errata=("ALGO S1", "ALGO S2", "ALGO S3", "ALGO S4"),
    )


def chain_error(case: ChainCase, phase: int, mode: str, steps: int) -> tuple[float, float, float]:
    """Error of the next state against exact gradient descent, its bound, and the distance to the truth."""
    states, targets = case.pairs(phase)
    lr, query = steady_lr(states), case.test[phase]
    program = compile(case.problem, GD(lr), mode=mode)
    exact = leaky_relu(printed.descend(states, targets, lr, steps) @ query, case.problem.slope)
    run = program.run(case.chains, None, steps=steps, query=case.test[: phase + 1])
    assert run.prediction is not None
    bound = loop_bound(program, states, targets, query, steps)
    return gap(run.prediction[0], exact), bound, gap(run.prediction[0], case.test[phase + 1])


def filter_error(case: ChainCase, phase: int) -> tuple[float, bool]:
    """Error of h, k and r after the entry layers, and whether all other tokens hold exactly 0."""
    p = case.problem
    program = compile(p, GD(0.1))
    session = program.codec.session(
        case.chains,
        None,
        init=None,
        epochs=None,
        steps=1,
        padded=False,
        query=case.test[: phase + 1],
    )
    slots = slots_after(program, session)
    states, targets = case.pairs(phase)
    n, per_chain = session.n_columns, p.n_layers + 1
    train = torch.arange(p.n_chains) * per_chain + phase
    wrong = [
        gap(slots["h"][train], states),
        gap(slots["k"][train], states / p.n_chains),
        gap(slots["r"][train], -targets),
        gap(slots["h"][n - 2], case.test[phase]),
    ]
    zero = True
    for name, kept in (
        ("h", [*train.tolist(), n - 2]),
        ("k", train.tolist()),
        ("r", train.tolist()),
    ):
        others = torch.ones(n, dtype=torch.bool)
        others[kept] = False
        zero &= bool((slots[name][others] == 0).all())
    return max(wrong), zero


@checks("ALGO", "Theorem 3.3")
def theorem_33() -> Row:
    """Chain of thought with networks.

    Statement: [ALGO] Theorem 3.3

    Differs from the paper: two layers filter where it cites seven; its "without loss of generality" is an
    inverse activation on the targets, and l = L is refused.
    """
    case = printed.network_chains(5, 6, 20, 0)
    off = {name: gap(s, case.test[1]) for name, s in printed.next_states(case, 0).items()}
    # Appendix A.3 goes from s^{l-1} to s^l: with s^0, .., s^l given that answers s^l again.
    again = gap(case.test[1], case.test[2])
    early = gap(printed.next_states(case, 2)["first_layers"], case.test[3])
    results = {phase: chain_error(case, phase, "spectral", 200) for phase in (0, 2, 5)}
    sym = {phase: chain_error(case, phase, "sym", 50) for phase in (0, 2, 5)}
    filters = [filter_error(case, phase) for phase in (0, 2, 5)]
    worst = max(results.values(), key=lambda each: each[0] / each[1])
    bars = all(error <= min(bound, LIMITS["chain", "sym"]) for error, bound, _ in sym.values())
    return judge(
        "Theorem 3.3",
        "seven layers filter out s_i^l and s_i^{l+1}, w.l.o.g. s^{l+1} = W s^l; then gradient descent",
        refuted=min(off["as_if_linear"], off["whole_network"], again) > 0.1,
        counterexample="from s^{l-1} to s^l, as the appendix counts, the answer is a state that is "
        f"given, {again:.2g} from the next (l=1). Readings, l=0, regressions solved: off by "
        f"{off['as_if_linear']:.2g} if states are fitted as they are, {off['corrected']:.0e} with the "
        f"inverse activation; {off['whole_network']:.2g} with the L-layer network as Phi, {early:.0e} "
        "(l=2) with its first l layers",
        corrected="two layers, inverse leaky ReLU on the targets; l=0,2,5 with one program, T=200 (sym, "
        f"T=50: {max(e for e, _, _ in sym.values()):.0e}; truth at l=0: {sym[0][2]:.0e})",
        measured=worst[0],
        bound=worst[1],
        also=bars
        and sym[0][2] <= 1e-5
        and max(off["corrected"], early) < 1e-12
        and all(error <= 1e-12 and zero for error, zero in filters),
        errata=("ALGO M1", "ALGO M2", "ALGO M3"),
    )
