"""Section 3.1 of [ALGO] as printed, with tokens as columns, and what its proofs leave out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.mechanisms import compile as compile_program
from icgd.mechanisms.loops.common.parts import SHARP, binary_codes
from icgd.problems import GD
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.nn.stack.softmax_sublayer import SoftmaxSublayer
from icgd.transformer.nn.stack.stack import MlpSublayer, Stack
from icgd.transformer.program import Program

DOUBLE = torch.float64
MODES = ("spectral", "sym", "four", "printed")
EQUATION_2 = r"TF_post(TF_loop(...TF_loop(TF_pre(X)))...)(TF_pre(X)))...)"
"""Its brackets as they stand, ornaments left out."""


@dataclass(frozen=True)
class Case:
    """A regression with a representation: data, one query, and the coefficients behind the labels."""

    problem: RepresentationRegression
    X: Tensor
    Y: Tensor
    query: Tensor
    A: Tensor

    @property
    def phi(self) -> Tensor:
        """Representations of the examples, (N, d)."""
        return self.problem.phi(self.X)

    @property
    def asked(self) -> Tensor:
        """The representation that asks, (d,)."""
        return self.problem.phi(self.query)[0]

    @property
    def lr(self) -> float:
        """A step size that descends."""
        size = torch.linalg.matrix_norm(self.phi, ord=2) ** 2 / len(self.phi)
        return 1 / (float(size) + self.problem.lam)

    def program(self, mode: str = "spectral") -> Program:
        """The compiled loop."""
        return compile_program(self.problem, GD(self.lr), mode=mode)

    def descent(self, steps: int) -> Tensor:
        """A after so many exact steps from 0, (k, d)."""
        A = self.phi.new_zeros(self.Y.shape[1], self.phi.shape[1])
        for _ in range(steps):
            gradient = (A @ self.phi.T - self.Y.T) @ self.phi / len(self.phi)
            A = A - self.lr * (gradient + self.problem.lam * A)
        return A


def example(d: int, n: int, layers: int = 0, lam: float = 0.0, seed: int = 0) -> Case:
    """Gaussian inputs, He-scaled layers, labels of size about 1 without noise."""
    g = torch.Generator().manual_seed(seed)
    representation = [
        (
            (2 / d) ** 0.5 * torch.randn(d, d, generator=g, dtype=DOUBLE),
            0.1 * torch.randn(d, generator=g, dtype=DOUBLE),
        )
        for _ in range(layers)
    ]
    X, query = (torch.randn(m, d, generator=g, dtype=DOUBLE) for m in (n, 1))
    A = torch.randn(1, d, generator=g, dtype=DOUBLE) / d**0.5
    rough = RepresentationRegression(d, n, representation=representation)
    size = float(torch.cat([rough.phi(X), rough.phi(query)]).norm(dim=1).max())
    problem = RepresentationRegression(
        d, n, representation=representation, lam=lam, x_radius=1.01 * size
    )
    return Case(problem, X, rough.phi(X) @ A.T, query, A)


# -- Equations 1 and 2 ----------------------------------------------------------------------------


def equation_1(stack: Stack, columns: Tensor, axis: int) -> Tensor:
    """Attn and TF with the literal matrices of one layer; softmax along `axis` of keys x queries."""
    out, width = columns, columns.shape[0]
    for _, layer in stack.each():
        if isinstance(layer, SoftmaxSublayer):
            X, total = out, out
            for head in layer.each():
                Q, K = head.get_parameter("query"), head.get_parameter("key")
                V = X.new_zeros(width, width)
                V.index_add_(0, head.get_buffer("target"), head.get_parameter("value"))
                total = total + V @ X @ torch.softmax(X.T @ K.T @ Q @ X, dim=axis)
            out = total
        else:
            assert isinstance(layer, MlpSublayer)
            W_1, W_2 = layer.matrices(width)
            out = out + W_2 @ torch.relu(W_1 @ out)
    return out


# -- Lemma A.2 ------------------------------------------------------------------------------------


def printed_step(
    case: Case, r: Tensor, c: float, C: float, *, second: bool, sink: bool = True
) -> Tensor:
    """The attention layer of the lemma, residual connection included, on rows r of all tokens.

    r       (2N + 2,) or (2N + 1,) of x_1 y_1 .. x_test (ANS)
    second  with the head that cancels the constant, whose scores are C at ANS and 0 elsewhere
    sink    whether the last zero token, which Theorem 3.1's prompt lacks, is there
    """
    n, d = case.X.shape
    tokens = 2 * n + 1 + sink
    x, k = r.new_zeros(d, tokens), r.new_zeros(d, tokens)
    x[:, 0 : 2 * n : 2], x[:, 2 * n] = case.phi.T, case.asked
    k[:, 0 : 2 * n : 2] = case.phi.T / n
    last = r.new_zeros(tokens)
    if sink:
        last[-1] = C
    scores = k.T @ (c * x) + last.unsqueeze(1)
    out = math.exp(C) * r @ torch.softmax(scores, dim=0)
    if second:
        flat = last.unsqueeze(1).expand_as(scores)
        out = out - math.exp(C) * r @ torch.softmax(flat, dim=0)
    return r + out


def start(case: Case, sink: bool = True) -> Tensor:
    """r = -y on x tokens of examples, 0 elsewhere: A_0 = 0."""
    n = len(case.X)
    r = case.Y.new_zeros(2 * n + 1 + sink)
    r[0 : 2 * n : 2] = -case.Y[:, 0]
    return r


def loss(case: Case, r: Tensor) -> float:
    """1/(2N) sum of squared residuals of the examples."""
    return float(r[0 : 2 * len(case.X) : 2].square().mean()) / 2


# -- Theorem 3.1 ----------------------------------------------------------------------------------


def printed_post(case: Case, r: Tensor) -> Tensor:
    """Labels after the read-out done "similarly" to the copy: K = Q = p, V = 2r to the label row."""
    n = len(case.X)
    codes = binary_codes(n + 1).to(DOUBLE).repeat_interleave(2, dim=0)
    weights = torch.softmax(SHARP / 2 * codes @ codes.T, dim=0)
    y = r.new_zeros(2 * n + 2)
    y[1 : 2 * n : 2] = case.Y[:, 0]
    return y + 2 * r @ weights


def copy_error(case: Case, inverse_temperature: float) -> float:
    """How far the labels that the copy layer brings to x tokens are from the right ones."""
    n = len(case.X)
    codes = binary_codes(n + 1).to(DOUBLE).repeat_interleave(2, dim=0)
    y = case.Y.new_zeros(2 * n + 2)
    y[1 : 2 * n : 2] = case.Y[:, 0]
    brought = 2 * y @ torch.softmax(inverse_temperature * codes @ codes.T, dim=0)
    return float((brought[0 : 2 * n : 2] - case.Y[:, 0]).abs().max())


# -- ridge ----------------------------------------------------------------------------------------


def shrunk_residuals(case: Case, steps: int) -> Tensor:
    """Ridge as shrinking what the loop holds, A x - y instead of A x: the answer for the query."""
    lr, n = case.lr, len(case.X)
    r, answer = -case.Y, case.Y.new_zeros(1)
    kernel, row = case.phi @ case.phi.T / n, case.phi @ case.asked / n
    keep = 1 - lr * case.problem.lam
    for _ in range(steps):
        r, answer = keep * r - lr * kernel @ r, keep * answer - lr * row @ r
    return answer


# -- Section 2.2 ----------------------------------------------------------------------------------

ONE_ROUNDING = 2.0**-53
"""What storing a number near 1 may change."""


def one_head_loop(case: Case, c: float, C: float, steps: int) -> Tensor:
    """Descent by ONE softmax head: y tokens hold -r, keys -k and queries -h, the second head's part.

    sum_j r_j e^{c s_j} + sum_j (-r_j) e^{-c s_j} = 2 sum_j r_j sinh(c s_j), and the negative of it where the
    query is -h. Only as long as both copies are exact negatives: a common part grows by N/c a step. They
    start with one of ONE_ROUNDING, because some processors sum in an order that rounds both alike for a
    while. The answer for the query.
    """
    n = len(case.X)
    signs = torch.tensor([1.0, -1.0], dtype=DOUBLE).repeat(n).unsqueeze(1)
    rest = case.phi.new_zeros(2, case.phi.shape[1])
    h = torch.cat([signs * case.phi.repeat_interleave(2, dim=0), rest])
    k = h / n
    h[2 * n] = case.asked
    r = torch.cat([-signs[:, 0] * case.Y[:, 0].repeat_interleave(2), rest[:, 0]])
    r[: 2 * n] += ONE_ROUNDING
    fixed = r.new_zeros(2 * n + 2, 2 * n + 2)
    fixed[:, -2], fixed[:, -1] = -2 * SHARP, C
    # ANS looks at itself alone: its value must stay exactly 0, because e^C multiplies it.
    fixed[-1, -1] += 2 * SHARP
    for _ in range(steps):
        weights = torch.softmax(c * h @ k.T + fixed, dim=1)
        r = r - case.lr * math.exp(C) / (2 * c) * weights @ r
    return r[2 * n : 2 * n + 1]


def unselected(case: Case, steps: int) -> Tensor:
    """All three parts' heads at work in every pass, none selected: the answer after T + 2 passes."""
    n, lr = len(case.X), case.lr
    kernel, row = case.phi @ case.phi.T / n, case.phi @ case.asked / n
    r, passed, answer = torch.zeros_like(case.Y), case.Y.new_zeros(1), case.Y.new_zeros(1)
    for _ in range(steps + 2):
        answer = answer + passed
        r, passed = r - case.Y - lr * kernel @ r, passed - lr * row @ r
    return answer
