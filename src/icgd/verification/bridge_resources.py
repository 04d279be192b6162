"""Checkers for Section 4 of [BRIDGE]: what depth buys, and what a transformer pays for it.

The lower bounds (Lemmas 1 and 4) are theorems about all networks of a size; running some of them cannot
show those. What is run is said, and what is not shown is said too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise

import torch
from torch import Tensor

from icgd.gadgets.relu_sum import fit_relu_sum
from icgd.theory.bridge_orders import (
    Units,
    ball_orders,
    crossover,
    deep_ball_width,
    exponent,
    fixed_depth_units,
    matrices,
    printed_size,
    smooth_orders,
    smooth_units,
)
from icgd.verification import bridge_fits as bridge_fits  # registers its rows
from icgd.verification.bridge_networks import (
    BallNetwork,
    ball_network_for,
    draw,
    folded_square,
    folded_units,
    in_ball,
    n_pieces,
    taylor_network,
    train_ball,
)
from icgd.verification.theorem_table import Row, checks, judge

SAMPLES = 8_000
RELU_UNITS = Units(r=1, product=2, identity=2)
"""What ReLU attention needs for a ReLU network."""


def ball_error(network: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """Mean squared distance from the indicator."""
    return float((network(x) - in_ball(x)).square().mean())


@lru_cache(maxsize=32)
def written_ball(measure: str, d: int, delta: float) -> tuple[BallNetwork, float]:
    """The explicit three-layer network for delta, and its error on fresh samples."""
    network = ball_network_for(delta, draw(measure, SAMPLES, d, seed=0))
    return network, ball_error(network, draw(measure, SAMPLES, d, seed=1))


@lru_cache(maxsize=8)
def trained_ball(widths: tuple[int, ...], steps: int = 300) -> float:
    """Error of a trained network on fresh samples, |x| even on [0, 2]; one seed."""
    network = train_ball(widths, draw("radial", SAMPLES, widths[0], seed=0), steps=steps, seed=0)
    return ball_error(network, draw("radial", SAMPLES, widths[0], seed=1))


SHALLOW = ((6, 64, 1), (6, 256, 1))
DEEP = (6, 16, 16, 1)


@checks("BRIDGE", "Lemma 1")
def lemma_1() -> Row:
    """Two layers are not enough for a ball.

    Statement: [BRIDGE] Lemma 1

    Differs from the paper: trained networks and |x| even on [0, 2] stand for all networks and its measure.
    """
    shallow = {w[1]: trained_ball(w) for w in SHALLOW}
    network, error = written_ball("radial", 6, 0.1)
    return judge(
        "Lemma 1",
        "for some measure every 2-layer network of width <= c exp(c' d) is c/d^4 off the ball's indicator",
        refuted=False,
        counterexample="none (constants unknown: c_2 stands for two of them, c_3 for none). d=6, trained: "
        + ", ".join(f"width {k} {v:.3f}" for k, v in shallow.items())
        + ". Not shown: all networks of a width, or the lemma's measure",
        corrected=f"three layers {network.widths} written down against the best of those trained ones",
        measured=error,
        bound=min(shallow.values()),
        documented="holds",
    )


@checks("BRIDGE", "Lemma 2")
def lemma_2() -> Row:
    """Three layers are enough.

    Statement: [BRIDGE] Lemma 2

    Differs from the paper: d^2 over delta, where it prints d^2 over sigma.
    """
    worst, narrow, seen = 0.0, True, []
    for measure in ("radial", "gauss", "heavy"):
        for d in (5, 20):
            for delta in (0.1, 0.01):
                network, error = written_ball(measure, d, delta)
                worst = max(worst, error / delta)
                narrow = narrow and max(network.widths) <= deep_ball_width(delta, d)
        seen.append(f"{measure} {network.widths[1]}")
    return judge(
        "Lemma 2",
        "for every measure a 3-layer network of width max(8 c d^2/sigma, c (2 delta)^-1/2) is within delta",
        refuted=not (worst <= 1 and narrow),
        counterexample="none in 12 cases once sigma, a function, is read as delta; the network depends on the "
        "measure, as the lemma allows",
        corrected=f"written down, units at d=20, delta=0.01: {', '.join(seen)}, allowed "
        f"{deep_ball_width(0.01, 20):.0f}; error over delta",
        measured=worst,
        bound=1.0,
        documented="holds",
    )


@checks("BRIDGE", "Theorem 3")
def theorem_3() -> Row:
    """What balls cost a transformer.

    Statement: [BRIDGE] Theorem 3

    Differs from the paper: n^2 K^2 with K = 1/eps is eps^-2; the dimension must grow with 1/eps; the shallow
    width is a lower bound, and a two-layer network costs K, not K^2.
    """
    printed = exponent(lambda e: ball_orders(e, "printed").deep, 1e-3)
    proof = exponent(lambda e: printed_size(3, 1 / e), 1e-3)
    counted = exponent(lambda e: float(matrices((4, round(1 / e), round(1 / e), 1))), 2.0**-10)
    two = exponent(lambda e: float(matrices((4, round(1 / e), 1))), 2.0**-10)
    growing = exponent(lambda e: ball_orders(e, "counted").deep, 1e-9)
    proof_from = crossover(lambda e: ball_orders(e, "proof"), low=1e-9)
    counted_from = crossover(lambda e: ball_orders(e, "counted"), low=1e-9)
    told = [f"{w} {trained_ball(w):.3f}, {matrices(w, RELU_UNITS)}" for w in (SHALLOW[1], DEEP)]
    thin = math.log10(matrices(written_ball("gauss", 20, 0.01)[0].widths)
                      / matrices(written_ball("gauss", 20, 0.1)[0].widths))  # fmt: skip
    network, error = written_ball("radial", 6, 0.1)
    told.append(
        f"{network.widths} written down {error:.4f}, {matrices(network.widths, RELU_UNITS)}"
    )
    return judge(
        "Theorem 3",
        "3 layers of width 1/eps cost eps^-1 parameter matrices, 2 layers exp(2 eps^-1/4)",
        refuted=abs(printed - 1) < 0.01 and abs(proof - 2) < 0.01 and abs(two - 1) < 0.01,
        counterexample=f"its proof's n^2 K^2 grows like eps^-{proof:.2f}: the deep one is cheaper below "
        f"eps={proof_from:.1e} only; counted, with the d = eps^-1/4 that Lemma 1 needs, eps^-{growing:.2f} "
        f"against exp(eps^-1/4): below {counted_from:.1e}",
        corrected=f"counted at fixed d, widths 1/eps: 3 layers eps^-{counted:.2f}, 2 layers K^{two:.2f}; with "
        f"2 units in the second layer, written down, eps^-{thin:.2f}. d=6, error and matrices: "
        f"{'; '.join(told)}: depth is more accurate, a saving is not shown. |exponent - 2|",
        measured=abs(counted - 2),
        bound=0.02,
        also=error < min(trained_ball(w) for w in SHALLOW),
    )


SINE = (torch.sin, torch.cos, lambda x: -torch.sin(x))


@checks("BRIDGE", "Lemma 3")
def lemma_3() -> Row:
    """Deep networks for smooth functions.

    Statement: [BRIDGE] Lemma 3

    Differs from the paper: run for x^2, and for one function of d = 1, n = 3.
    """
    folds = (2, 4, 6, 8)
    off = 0.0
    for m in folds:
        x = torch.linspace(0, 1, 2 ** (m + 5) + 1, dtype=torch.float64)
        off = max(off, abs(float((folded_square(x, m) - x * x).abs().max()) * 4 ** (m + 1) - 1))
    x = torch.linspace(0, 1, 3001, dtype=torch.float64)
    worst, ratios, sizes = 0.0, [], []
    for eps in (1e-2, 1e-4, 1e-6):
        network = taylor_network(SINE, eps)
        worst = max(worst, float((network(x) - x.sin()).abs().max()) / eps)
        ratios.append(network.n_units / smooth_units(eps, 1, 3))
        sizes.append(f"{network.n_units} units, {network.depth} layers")
    return judge(
        "Lemma 3",
        "depth c (ln(1/eps) + 1) and c eps^(-d/n) (ln(1/eps) + 1) units express any function of F_{d,n}",
        refuted=not (worst <= 1 and all(b <= a for a, b in pairwise(ratios))),
        counterexample="none: units over eps^(-1/3) (ln(1/eps)+1) fall from "
        f"{ratios[0]:.1f} to {ratios[-1]:.1f}. Not shown: d > 1, other n, every function",
        corrected=f"x^2 with {', '.join(str(folded_units(m)) for m in folds)} units errs 4^-(m+1) for m = "
        f"{', '.join(map(str, folds))} to {off:.0e}; sin within 1e-2, 1e-4, 1e-6: {'; '.join(sizes)}; "
        "error / eps",
        measured=worst,
        bound=1.0,
        also=off <= 1e-9,
        documented="holds",
    )


@checks("BRIDGE", "Lemma 4")
def lemma_4() -> Row:
    """Fixed depth is slow.

    Statement: [BRIDGE] Lemma 4

    Differs from the paper: for x^2, with the constant written out.
    """
    off, needed = 0.0, []
    for m in (2, 4, 6, 8):
        segments = math.ceil(2 ** (m + 1) / math.sqrt(8))
        fit = fit_relu_sum(lambda t: ((t + 1) / 2) ** 2, 1.0, segments, second=0.5, third=0.0)
        x = torch.linspace(-1, 1, 256 * segments + 1, dtype=torch.float64)
        error = float((fit(x) - ((x + 1) / 2) ** 2).abs().max())
        off = max(off, abs(error * 8 * segments**2 - 1))
        needed.append(f"{fit.n_relu} (at least {fixed_depth_units(4.0 ** -(m + 1), 2):.0f})")
    over = max(
        n_pieces(_random_network(width, hidden, seed)) / (width + 1) ** hidden
        for width, hidden in ((6, 1), (4, 2), (3, 3))
        for seed in range(10)
    )
    folded = [n_pieces(partial(folded_square, m=m)) / 2**m for m in (2, 5)]
    return judge(
        "Lemma 4",
        "at a fixed depth L a nonlinear C^2 function needs at least c eps^(-1/(2(L-1))) units",
        refuted=over > 1,
        counterexample="none in 30 random networks: pieces over prod (k_l + 1) at most "
        f"{over:.2f}, and s pieces err at least 1/(8 s^2) on x^2. Not shown: other functions",
        corrected=f"x^2 as exactly as with 7, 13, 19, 25 folded units, shallow: {', '.join(needed)} units; "
        "best piecewise linear error over 1/(8 s^2), minus 1",
        measured=off,
        bound=1e-9,
        also=folded == [1.0, 1.0],
        documented="holds",
    )


def _random_network(width: int, hidden: int, seed: int) -> Callable[[Tensor], Tensor]:
    """A ReLU network of one variable with kinks in [0, 1]."""
    source = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=source)

    layers = [(normal(width, 1 if k == 0 else width), normal(width)) for k in range(hidden)]
    last = normal(width)

    def network(x: Tensor) -> Tensor:
        value = x.unsqueeze(1) * 4 - 2
        for W, b in layers:
            value = torch.relu(value @ W.T + b)
        return value @ last

    return network


@checks("BRIDGE", "Theorem 4")
def theorem_4() -> Row:
    """What smooth functions cost a transformer.

    Statement: [BRIDGE] Theorem 4

    Differs from the paper: true for eps small enough; two and three layers ask 6 d < n; the fixed depth is
    a lower bound.
    """
    d, n, depth = 1, 3, 2
    said = smooth_orders(1e-12, d, n, depth, "printed")
    start = crossover(lambda e: smooth_orders(e, d, n, depth, "printed"))
    never = crossover(lambda e: smooth_orders(e, d, n, depth, "counted"))
    later = crossover(lambda e: smooth_orders(e, d, 8, depth, "counted"))
    powers = [_power_of_width(layers) for layers in (2, 3, 4, 5)]
    far = smooth_orders(1e-24, d, n, depth, "printed")
    return judge(
        "Theorem 4",
        "if 2 (L-1) d < n the deep network costs a transformer less",
        refuted=said.deep > said.shallow and never == 0.0,
        counterexample=f"d=1, n=3, L=2, eps=1e-12, constants one: deep {said.deep:.1e}, shallow "
        f"{said.shallow:.1e}; the ln^3 is paid off below {start:.0e} only. As counted the deep one is never "
        "cheaper here: networks of 2, 3, 4, 5 layers cost K to the "
        f"{', '.join(f'{p:.2f}' for p in powers)}, where it says 2",
        corrected=f"for eps small enough; counted, L = 2 and 3 ask 6 d < n (L=2, n=8: below {later:.0e}), "
        "L >= 4 as printed. Deep over shallow as printed at eps=1e-24",
        measured=far.deep / far.shallow,
        bound=1.0,
        also=all(abs(p - q) < 0.05 for p, q in zip(powers, (1, 2, 3, 3), strict=True))
        and later > 0,
    )


def _power_of_width(layers: int) -> float:
    """How the counted matrices of a network of equal widths grow with the width."""
    return exponent(lambda e: float(matrices((1, *[round(1 / e)] * (layers - 1), 1))), 1e-4)
