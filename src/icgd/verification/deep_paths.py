"""Checkers for Corollary 1.1 and Lemma 14 of [DEEP]: what the errors of steps do to a whole run."""

from __future__ import annotations

from itertools import pairwise

import torch

from icgd.theory.deep_bounds import (
    accumulated_error,
    convergence_bound,
    printed_accumulated_error,
)
from icgd.verification.deep_cases import (
    F64,
    Case,
    Walk,
    autograd_gradient,
    distance,
    make_case,
    matrices,
    walk,
)
from icgd.verification.theorem_table import Row, checks, judge


def lipschitz_along(its: Case, done: Walk) -> float:
    """|grad f(v) - grad f(w)| / |v - w|, the largest between both paths and along the first."""
    pairs = [*zip(done.weights, done.exact, strict=True), *pairwise([its.init, *done.weights])]
    largest = 0.0
    for one, other in pairs:
        a, b = matrices(one), matrices(other)
        change = distance(*(autograd_gradient(V, its.X, its.Y, torch.tanh) for V in (a, b)))
        largest = max(largest, change / distance(a, b))
    return largest


def one_weight_bend(its: Case) -> float:
    """The largest |f''| of a network of one weight: its L_f."""
    w = torch.linspace(-8, 8, 4001, dtype=F64, requires_grad=True)
    with torch.enable_grad():
        f = (torch.tanh(w * its.X[0, 0]) - its.Y[0, 0]).square() / 2
        (slope,) = torch.autograd.grad(f.sum(), w, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), w)
    return float(bend.abs().max())


def gradient_errors(its: Case, done: Walk) -> list[float]:
    """The 2-norm error of every step divided by eta, no projection being active."""
    before, errors = its.init, list[float]()
    for after in done.weights:
        gradient = autograd_gradient(matrices(before), its.X, its.Y, torch.tanh)
        exact = [W - its.lr * g for W, g in zip(matrices(before), gradient, strict=True)]
        errors.append(distance(matrices(after), exact) / its.lr)
        before = after
    return errors


@checks("DEEP", "Corollary 1.1, 4.1")
def corollary_11() -> Row:
    """How errors of steps add up to an error of the path.

    Statement: [DEEP] Corollary 1.1
    Statement: [DEEP] Corollary 4.1

    Differs from the paper: eta for n; L_f is the Lipschitz constant of the gradient.
    """
    one = make_case((1, 1), n=1, lr=10.0, box=100.0)
    short = walk(one, one.program(n_relu=65, knots="uniform"), 1)
    eps_one = gradient_errors(one, short)[0]
    L_one = max(
        lipschitz_along(one, short), 1.0
    )  # a larger L_f makes the printed bound smaller here
    told = printed_accumulated_error(1, eps_one, 1, L_one)
    off = distance(matrices(short.weights[0]), matrices(short.exact[0]))
    its = make_case((3, 4, 4, 3), box=100.0)
    done = walk(its, its.program(n_relu=129, knots="uniform", radius=8.0), 60)
    eps, L_f = max(gradient_errors(its, done)), lipschitz_along(its, done)
    path = [
        (distance(matrices(w), matrices(e)), accumulated_error(t, eps, its.lr, L_f))
        for t, (w, e) in enumerate(zip(done.weights, done.exact, strict=True), 1)
    ]
    return judge(
        "Corollary 1.1, 4.1",
        "|w^_l - w_l| <= (1 + n L_f)^l eps / L_f, L_f the Lipschitz constant of L_n, w_l without projection",
        refuted=off > told,
        counterexample=f"n=1, eta=10, one weight: after one step eta eps = {off:.2g}, printed {told:.2g} "
        f"(L_f={L_one:.2g}); the main text's w_l is not projected, Lemma 14's is",
        corrected=f"((1 + eta L_f)^l - 1) eps / L_f at every l <= 60 (L_f={L_f:.2g}; l=60: {path[-1][0]:.0e} "
        f"of {path[-1][1]:.0e}); l=3",
        measured=path[2][0],
        bound=path[2][1],
        also=all(distance_ <= bound for distance_, bound in path),
    )


def alternating(steps: int) -> tuple[float, float]:
    """(mean |G|^2, printed bound) for f = 5 (w - 1/2)^2 on [-1, 1] at eta = L_f = 10, from w = 0."""
    L_f, eta, w = 10.0, 10.0, 0.0
    total = 0.0
    for step in range(steps):
        new = min(1.0, max(-1.0, w - eta * L_f * (w - 0.5)))
        if step:
            total += ((w - new) / eta) ** 2
        w = new
    return total / steps, convergence_bound(steps, eta, 0.0, L_f / 2 * 0.25)


@checks("DEEP", "Lemma 14")
def lemma_14() -> Row:
    """Convergence of inexact projected gradient descent.

    Statement: [DEEP] Lemma 14

    Differs from the paper: eta <= 1/L_f, the mean over l = 0..L-1, and eta for n; the constants 8 and 10
    hold (theory/deep_bounds.py has the proof).
    """
    mean, told = alternating(100)
    its = make_case((3, 4, 4, 3), box=100.0, lr=0.25)
    steps = 40
    done = walk(its, its.program(n_relu=65, knots="uniform", radius=8.0), steps)
    eps, L_f = max(gradient_errors(its, done)), lipschitz_along(its, done)
    squares = [
        sum(
            float(g.square().sum())
            for g in autograd_gradient(matrices(w), its.X, its.Y, torch.tanh)
        )
        for w in [its.init, *done.weights[:-1]]
    ]
    # min over l = 1..L-1 against the mean that divides L-1 terms by L.
    first = min(squares[1:3]) > sum(squares[1:3]) / 3 and squares[1] > squares[1] / 2
    flat = min(squares[-3:]) / max(squares[-3:])
    p = its.X
    for W in its.matrices:
        p = torch.tanh(p @ W.T)
    start = float((p - its.Y).square().sum()) / (2 * len(its.X))
    ours = convergence_bound(steps, its.lr, eps, start)
    return judge(
        "Lemma 14",
        "eta <= L_f: min_{l in [L-1]} |G|^2 <= 1/L sum_{l=1}^{L-1} |G|^2 <= 8 (f(0) - inf f)/(eta L) + "
        "10 eps^2",
        refuted=mean > told and first,
        counterexample=f"f = 5 (w - 1/2)^2 on [-1, 1], eta = L_f = 10: w jumps between the ends, mean |G|^2 "
        f"{mean:.3f} after 100 steps, printed {told:.3f}; L-1 terms over L: for L=2 it says "
        "|G(w_1)|^2 <= |G(w_1)|^2 / 2",
        corrected=f"eta L_f <= 1 ({its.lr * L_f:.2f}), mean over l = 0..L-1, inf f >= 0; a tanh network, "
        f"{steps} steps",
        measured=sum(squares) / steps,
        bound=ours,
        also=its.lr * L_f <= 1 and flat > 0.5 and min(squares) <= sum(squares) / steps,
    )
