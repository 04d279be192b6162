"""Checkers for Appendix F of [DEEP]: softmax blocks that look up a gradient step by a context id."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from icgd.papers.deep.appendix_f import printed as printed
from icgd.papers.deep.appendix_f.bounds import (
    log10_grid_separation,
    log10_separation,
    printed_bound,
    rms_bound,
    rms_of_rounding,
    sup_norm_floor,
)
from icgd.papers.deep.appendix_f.cases import (
    EXAMPLES,
    LR,
    STEPS,
    blocks_that_cannot_see,
    mean_gradient_errors,
    mean_of_tokens,
    onto_ramp,
    prompt_block,
    rms,
    sample,
    sequence_error,
    step_error,
    table_at_blind_spot,
    uniform,
    walk_error,
)
from icgd.papers.deep.appendix_f.lookup import (
    ROUNDING,
    ContextHead,
    ContextLookup,
    plain_wiring,
    quantise,
    separation,
    tanh_step,
)
from icgd.papers.deep.appendix_f.lookup_literal import LiteralContextLookup
from icgd.papers.deep.appendix_f.mean_gradient import MeanGradientBlock, tanh_gradient
from icgd.papers.theorem_table import Row, checks, judge

F64 = torch.float64
NARROW = 2.0**-34
"""Ramps so narrow that no sample of a few thousand meets one."""


@checks("DEEP", "Definition 11")
def definition_11() -> Row:
    """FF, a softmax head, FF.

    Statement: [DEEP] Definition 11

    Differs from the paper: the lengths of b_1 and b_2.
    """
    block = prompt_block(2)
    literal = LiteralContextLookup(block)
    tokens = torch.cat([sample(block, 500), onto_ramp(block, 500, "w")])
    by_relus = literal(tokens)
    # Rounding of the hidden units of FF1, seen through the slope of FF2.
    size = float(literal.ff1.b_in.abs().max())
    rounding = 4 * 2.0**-52 * size * len(block.wiring.slots) * block.steepest
    return judge(
        "Definition 11",
        "a block is FF o Attn o FF, FF(H) = H + W_2 relu(W_1 H + b_1 1^T) + b_2 1^T, Attn with a skip too",
        refuted=False,
        counterexample="none; the lengths given for b_1 and b_2 are not those of W_1 and H, here "
        f"{literal.n_units[0]} and {literal.d + 1}",
        corrected="a look-up written out in these matrices, "
        f"{literal.n_units[0]} and {literal.n_units[1]} units, against its evaluation by sorting, on ramps too",
        measured=float((by_relus[..., :-1] - block(tokens)).abs().max()),
        bound=rounding,
        also=float(by_relus[..., -1].abs().max()) == 0.0,
    )


def _grid_tokens(n_levels: int) -> tuple[Tensor, Tensor]:
    """All tokens of all quantised prompts (rows), and for every one the tokens of its sequence."""
    block = prompt_block(n_levels)
    levels = block.quantise(block.centres())
    own = levels.flatten(0, 1)
    context = levels.unsqueeze(1).expand(-1, levels.shape[1], -1, -1).flatten(0, 1)
    return own, context


def _differ(rows: Tensor) -> Tensor:
    """Which pairs of rows are not the same."""
    return (rows.unsqueeze(0) - rows.unsqueeze(1)).abs().flatten(2).amax(-1) > ROUNDING


def _as_multiset(context: Tensor) -> Tensor:
    """Numbers that are equal for two sequences exactly if one is a permutation of the other."""
    code = context @ torch.tensor([1.0, 37.0, 1369.0, 50653.0], dtype=F64)
    return code.sort(dim=-1).values


@checks("DEEP", "Definition 12")
def definition_12() -> Row:
    """Tokens bounded and apart.

    Statement: [DEEP] Definition 12

    Differs from the paper: no. The grid it is used for has distances equal to B/D, not above it.
    """
    n_levels, shy = 3, 0.999
    own = _grid_tokens(n_levels)[0].unique(dim=0)
    least = printed.least_distance(own, _differ(own))
    sizes = own.norm(dim=1)
    return judge(
        "Definition 12",
        "sequences are separated if all norms are in (r_min, r_max) and distinct tokens more than delta apart",
        refuted=False,
        counterexample=f"none; F.4 takes delta = B/D, but for D={n_levels} the least distance is B/D itself "
        f"({least:.4f}), norms reach {float(sizes.min()):.4f} and {float(sizes.max()):.4f}, and all three "
        "inequalities are strict",
        corrected=f"the quantised prompts with delta = {shy} B/D",
        measured=shy / n_levels,
        bound=least,
        also=abs(least - 1 / n_levels) < 1e-15,
    )


@checks("DEEP", "Definition 13")
def definition_13() -> Row:
    """Context ids.

    Statement: [DEEP] Definition 13

    Differs from the paper: ids must differ also where tokens are equal and the sequences are not.
    """
    own, _ = _grid_tokens(2)
    distance = printed.least_distance(own, _differ(own))
    lost = {}
    for n_levels in (2, 3, 4, 5):
        block = prompt_block(n_levels)
        centres = block.centres()
        labels = tanh_step(LR)(centres).flatten(0, 1)
        blind = replace(block.head, weight=0.0)
        ids = blind.ids(block.quantise(centres)).flatten()
        lost[n_levels] = separation(ids, labels).collisions
    ours = prompt_block(5)
    near = ROUNDING * float(ours.knots.abs().max())
    return judge(
        "Definition 13",
        "q is a contextual mapping if |q| < r and distinct tokens get ids more than delta apart",
        refuted=distance > 0.4 and min(lost.values()) > 0,
        counterexample=f"q(Z) = Z passes with delta={0.9 * distance:.2f} and knows no context: in the table of "
        f"a gradient step with D=2, 3, 4, 5, {', '.join(str(c) for c in lost.values())} neighbouring entries "
        "have one id and two labels",
        corrected="ids differ if the tokens or the sequences (as multisets) do; a generic rank-1 head, D=5, "
        f"{ours.n_entries} entries, 0 collisions: rounding of ids against their least gap",
        measured=near,
        bound=ours.gap,
        errata=("DEEP F1",),
    )


@checks("DEEP", "Lemma 17")
def lemma_17() -> Row:
    """A softmax head of rank 1 makes context ids.

    Statement: [DEEP] Lemma 17

    Differs from the paper: with the full Definition 13, and sequences with equal tokens kept.
    """
    own, context = _grid_tokens(2)
    n, d = context.shape[1:]
    sizes, apart = own.norm(dim=1), printed.least_distance(own, _differ(own))
    r_max = float(sizes.max())
    promised = log10_separation(
        n, d, len(own.unique(dim=0)), r_min=float(sizes.min()), r_max=r_max, eps=apart
    )
    head = ContextHead.generic(d)
    average = head.average(_sequences(own, n)).flatten()
    # The average enters along one direction, so little that r is kept.
    along = torch.full((d,), 1 / math.sqrt(d), dtype=F64)
    ids = own + (0.9 * apart / 4) * (average / average.abs().max()).unsqueeze(-1) * along
    differ = _differ(own) | _differ(_as_multiset(context))
    least = printed.least_distance(ids, differ)
    D = 8
    dropped = 1 - (D - 1) * (D - 2) / D**2
    return judge(
        "Lemma 17",
        "one softmax head with V, K, Q of rank 1 is an (r_max + eps/4, delta)-contextual mapping of sequences "
        "without equal tokens, delta printed",
        refuted=not (least > 0 and promised < math.log10(least)),
        counterexample="none, but with the printed Definition 13 W_O = 0 proves it, and the printed delta is "
        f"10^{promised:.1e} for these prompts, 10^{log10_grid_separation(n, d, 2):.1e} and "
        f"10^{log10_grid_separation(n, d, 4):.1e} for all sequences with D=2 and 4; Lemma 16 drops sequences "
        f"with equal tokens, {dropped:.0%} of the grid for d=1, n=3, D={D}",
        corrected=f"full Definition 13 on all {len(own)} tokens of the prompts with D=2, equal ones too: a "
        f"generic head, least distance {least:.1e}; largest id against r",
        measured=float(ids.norm(dim=1).max()),
        bound=r_max + apart / 4,
        also=least > 1e-9,
    )


def _sequences(tokens: Tensor, n: int) -> Tensor:
    return tokens.reshape(-1, n, tokens.shape[-1])


@checks("DEEP", "F.4, first layer")
def first_layer() -> Row:
    """The quantiser (F.6) to (F.12) and its range (F.21).

    Statement: [DEEP] Lemma 18

    Differs from the paper: middle case of (F.6), factor B in (F.10), no penalty (F.12).
    """
    D, delta, side = 4, 2.0**-10, 2.0
    z = torch.linspace(-0.5, 3.0, 20_001, dtype=F64)
    cases = max(
        float(
            (
                printed.ramp_of_relus(z, t, D, delta, side)
                - printed.ramp_by_cases(z, t, D, delta, side)
            )
            .abs()
            .max()
        )
        for t in range(D)
    )
    outside = z[z > side * (1 + delta)]
    left = float(printed.levels_with_last_step(outside, D, delta, side).abs().max())
    # A second token leaves the cube: (F.12) changes the first, a token-wise layer cannot.
    pair = torch.tensor([[[0.6], [0.6]], [[0.6], [1.6]]], dtype=F64)
    first = printed.penalised(pair, quantise(pair.clamp(0, 1), D))[:, 0]
    moved = float((first[0] - first[1]).abs().max())
    low = float(quantise(torch.zeros(1, dtype=F64), D))
    shifted = max(
        float(
            (
                printed.ramp_of_relus(z, t, D, delta, side)
                - printed.ramp_by_cases(z, t, D, delta, side, shifted=True)
            )
            .abs()
            .max()
        )
        for t in range(D)
    )
    fixed = float(printed.levels_with_last_step(outside, D, delta, side, scaled=True).abs().max())
    return judge(
        "F.4, first layer",
        "(F.6) is z/(delta D) on a ramp; (F.10) is 0 beyond B; (F.12) adds all penalties of the sequence; "
        "(F.21) levels of the cube are >= B/D",
        refuted=min(cases, left, moved) > 0.5 and low < 1 / D,
        counterexample=f"D={D}, B={side:g}: (F.6) is off by {cases:.3g}; (F.10) is {left:g} beyond B; (F.12) "
        f"moves token 1 by {moved:g} when token 2 leaves the cube, and FF1 sees one token; the level of z=0 is "
        f"{low:g}, not B/D",
        corrected="(z - t B/D)/(delta D); B times the last bracket; inputs inside the cube, and off the ramps",
        measured=max(shifted, fixed),
        # Hidden units are of size z/delta, eight of them.
        bound=8 * 2.0**-52 * float(z.abs().max()) / delta,
        errata=("DEEP F3", "DEEP F4"),
    )


@checks("DEEP", "Lemma 16, 18")
def lemma_16() -> Row:
    """Universal approximation by one softmax block.

    Statement: [DEEP] Lemma 16
    Statement: [DEEP] Lemma 18

    Differs from the paper: in the mean square; in the largest norm it is false.
    """
    wide = {D: ContextLookup(plain_wiring(2), D, mean_of_tokens) for D in (32, 128)}
    ramps = {
        D: float(sequence_error(b, mean_of_tokens, onto_ramp(b, 4000, "z0[0]")).max())
        for D, b in wide.items()
    }
    claimed = {D: printed_bound(1.0, 1, 2, D) for D in wide}
    least, left = blocks_that_cannot_see()
    missed, there = table_at_blind_spot(24)
    floor, L = sup_norm_floor(), printed.lipschitz_of_spread(3)
    sharp = ContextLookup(plain_wiring(2), 128, mean_of_tokens, ramp=NARROW)
    seen = sequence_error(sharp, mean_of_tokens, uniform(sharp, 4000))
    return judge(
        "Lemma 16, 18",
        "every L-Lipschitz equivariant f has a block with |f_block - f| <= L(8 sqrt(dn) + sqrt n)B/(2D) "
        "on the cube",
        refuted=all(ramps[D] > claimed[D] for D in wide)
        and min(least / 2, there / 2, missed) >= floor
        and left < 1e-9,
        counterexample="f = mean, d=1, n=2, one input on a ramp: "
        + ", ".join(f"D={D}: {ramps[D]:.2f} (printed {claimed[D]:.3f})" for D in wide)
        + f"; f_k = sum_l |z_l - z_k|, n=3: no block with a rank-1 head (d=1: none at all) is below {floor:g}, "
        f"printed {printed_bound(L, 1, 3, 1000):.3f} for D=1000; 12 first layers tried, f_1 >= {least:.2f} "
        f"where they hold what they hold for f_1=0; table with D=24 off by {missed:.2f}",
        corrected=f"mean square over the cube, table with D=128, ramps of {NARROW:.0e}",
        measured=rms(seen),
        bound=rms_bound(1.0, 2, 128, NARROW, spread=math.sqrt(2)),
        errata=("DEEP F2",),
    )


@checks("DEEP", "Theorem 3, 6")
def theorem_6() -> Row:
    """Gradient descent by softmax blocks, four layers a step.

    Statement: [DEEP] Theorem 6
    Statement: [DEEP] Theorem 3

    Differs from the paper: the network. Examples write their gradients, the head averages them. What fails is
    the proof by Lemma 16; that four layers a step exist holds, here for one weight.
    """
    sizes = (3, 4, 5)
    cells = {D: rms(step_error(prompt_block(D), sample(prompt_block(D), 4000))) for D in sizes}
    ramps = {
        D: float(step_error(prompt_block(D), onto_ramp(prompt_block(D), 4000, "w")).max())
        for D in sizes
    }
    far, way = walk_error(prompt_block(5), sample(prompt_block(5), 4000))
    law = max(abs(cells[D] / rms_of_rounding(D) - 1) for D in sizes)
    block = MeanGradientBlock(tanh_gradient, EXAMPLES, lr=LR, n_knots=12)
    hard = [sample(prompt_block(5), 4000, seed=1), onto_ramp(prompt_block(5), 4000, "w", seed=1)]
    errors = mean_gradient_errors(block, hard)
    return judge(
        "Theorem 3, 6",
        "by Lemma 16, 4L layers make L steps of gradient descent, each within eta eps, for any eps",
        refuted=min(ramps.values()) > 1.5 * LR and far > way / 3 and law < 0.2,
        counterexample="tanh(w x), 2 examples, eta=0.5, one step: off the ramps the error is "
        + ", ".join(f"{cells[D]:.3f}" for D in sizes)
        + " (rms), with w on a ramp "
        + ", ".join(f"{ramps[D]:.2f}" for D in sizes)
        + f" (largest) for D=3, 4, 5, the last with {prompt_block(5).n_entries} entries; {STEPS} steps with "
        f"D=5: {far:.2f} off on a way of {way:.2f}. As existence it holds, by another network",
        corrected=f"no table: FF1 with {block.n_units} units fits the gradient of one example, the head "
        f"averages; every one of {STEPS} steps, ramps included, in the largest norm",
        measured=max(errors),
        bound=LR * block.fit_error,
        also=block.n_layers == 4 and block.fit_error < 0.05,
        errata=("DEEP F5",),
    )
