"""Section 4.1 and Appendix A.4 of [ALGO] as printed, each reading run; and what is certified for ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from icgd.mechanisms import compile
from icgd.mechanisms.loops.newton.codec import NewtonCodec
from icgd.mechanisms.loops.newton.layers import EVERY, newton_layout
from icgd.oracle.least_squares import newton_schulz
from icgd.problems import LinearRegression, Newton
from icgd.transformer.blocks import Block, pack_block
from icgd.transformer.gadgets.heads.bilinear import bilinear_certificate
from icgd.transformer.layout import Layout
from icgd.transformer.nn.stack.softmax_sublayer import (
    SoftmaxHead,
    SoftmaxSublayer,
    linear_rows,
    stacked,
)
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.nn.symbolic import weights_stay_fixed
from icgd.transformer.program import Program

DOUBLE = torch.float64


@dataclass(frozen=True)
class Case:
    """Examples of a linear function, with noise, and a query."""

    X: Tensor
    y: Tensor
    query: Tensor

    @property
    def size(self) -> float:
        """|S|."""
        return float(torch.linalg.matrix_norm(self.X, 2)) ** 2

    def program(self, factor: float, mode: str = "spectral") -> Program:
        """Newton's method with alpha = factor / |S|^2."""
        n, d = self.X.shape
        problem = LinearRegression(d, n)
        return compile(problem, Newton(factor / self.size**2), mode=mode)


def gaussian(d: int, n: int, seed: int, noise: float = 0.1) -> Case:
    """A random case."""
    g = torch.Generator().manual_seed(seed)
    X, w = torch.randn(n, d, generator=g, dtype=DOUBLE), torch.randn(d, generator=g, dtype=DOUBLE)
    y = X @ w + noise * torch.randn(n, generator=g, dtype=DOUBLE)
    return Case(X, y, torch.randn(1, d, generator=g, dtype=DOUBLE))


def states(program: Program, block: Block, n_tokens: int) -> Iterator[dict[str, Tensor]]:
    """Slots after the entry layers and after every step, without any check of the data."""
    assert isinstance(program.entry, Stack)
    assert isinstance(program.step, Stack)
    with weights_stay_fixed(), torch.no_grad():
        tokens = program.entry(pack_block(block, program.layout, n_tokens, program.step.like))
        while True:
            yield program.layout.unpack(tokens)
            tokens = program.step(tokens)


def columns(program: Program, case: Case, steps: int) -> list[Tensor]:
    """M_k x_i as the transformer holds them, (N, d), for k = 0 .. steps."""
    assert isinstance(program.codec, NewtonCodec)
    block, n_tokens, _ = program.codec.tokens(case.X, case.y.unsqueeze(-1), case.query)
    n = 2 * len(case.X)
    return [slots["u"][0:n:2] for slots in islice(states(program, block, n_tokens), steps + 1)]


def stuck(case: Case, factor: float, steps: int) -> float:
    """|I - M_k S| of the exact iteration from alpha = factor / |S|^2."""
    M = next(islice(newton_schulz(case.X, factor / case.size**2), steps, None))
    eye = torch.eye(case.X.shape[1], dtype=DOUBLE)
    return float(torch.linalg.matrix_norm(eye - M @ (case.X.T @ case.X), 2))


# -- weights that do not exist --------------------------------------------------------------------


def printed_tokens(case: Case, u: Tensor, query: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The printed prompt (x, y, u and indicators; columns as rows here) and the printed images of it."""
    n, d = case.X.shape
    layout = Layout([*newton_layout(LinearRegression(d, n))])
    tokens = torch.zeros(2 * n + 2, layout.width, dtype=DOUBLE)
    train = slice(0, 2 * n, 2)
    tokens[train, layout.slice("x")], tokens[2 * n, layout.slice("x")] = case.X, query
    tokens[train, layout.slice("u")] = u
    tokens[1 : 2 * n : 2, layout.slice("y")] = case.y.unsqueeze(-1)
    tokens[train, layout.slice("is_train")] = 1.0
    tokens[1 : 2 * n + 2 : 2, layout.slice("is_y")] = 1.0
    tokens[2 * n, layout.slice("is_test")] = 1.0
    tokens[2 * n + 1, layout.slice("is_answer")] = 1.0
    value, loop = torch.zeros(2 * n + 2, d, dtype=DOUBLE), torch.zeros(2 * n + 2, d, dtype=DOUBLE)
    value[train], loop[train], loop[2 * n] = case.X, u, query
    return tokens, {
        "start value": value,
        "loop query": loop,
        "loop value": tokens[:, layout.slice("u")],
    }


def misfit(cases: Sequence[Case], which: str) -> float:
    """How far the best matrix stays from a printed image of several prompts; weights are shared by all."""
    pairs = []
    for case in cases:
        M = next(islice(newton_schulz(case.X, 1 / case.size**2), 5, None))
        # Before the first layer there is no M x yet.
        u = torch.zeros_like(case.X) if which == "start value" else case.X @ M
        pairs.append(printed_tokens(case, u, case.query[0]))
    P, target = torch.cat([t for t, _ in pairs]), torch.cat([images[which] for _, images in pairs])
    W = torch.linalg.lstsq(P, target, driver="gelsd").solution
    return float((P @ W - target).abs().max())


def query_among_examples(case: Case) -> float:
    """Prediction of exact Newton if x_test counts as an example with label 0, as P's only row of x has it."""
    X = torch.cat([case.X, case.query])
    y = torch.cat([case.y, case.y.new_zeros(1)])
    return float(case.query[0] @ torch.linalg.lstsq(X, y.unsqueeze(-1)).solution[:, 0])


def off_row_space(case: Case, steps: tuple[int, ...]) -> list[float]:
    """Error of M_k x_i on data of rank 2 after so many steps, mode "sym": over the reals it would go to 0."""
    g = torch.Generator().manual_seed(3)
    plane = torch.randn(2, case.X.shape[1], generator=g, dtype=DOUBLE) / 2
    flat = Case(case.X[:, :2] @ plane, case.y, case.query)
    by_step = columns(flat.program(1.0, "sym"), flat, max(steps))
    best = torch.linalg.pinv(flat.X).T
    return [float((by_step[k] - best).norm()) for k in steps]


# -- Lemma A.4 ------------------------------------------------------------------------------------


def printed_step(case: Case, u: Tensor, C: float, c: float, sign: float) -> Tensor:
    """u after two printed heads and weight sign/c on what they return, added to the residual stream."""
    d = case.X.shape[1]
    tokens, _ = printed_tokens(case, u, case.query[0])
    layout = newton_layout(LinearRegression(d, len(case.X)))
    one, sink = linear_rows(layout, EVERY), linear_rows(layout, [("is_answer", C)])
    query = torch.cat([stacked(layout, [[("u", 1.0)]]), one])
    value = sign / c * math.exp(C) * linear_rows(layout, [("u", 1.0)])
    where = layout.index("u")
    heads = {
        name: SoftmaxHead(
            query,
            torch.cat([factor * linear_rows(layout, [("x", c)]), sink]),
            factor_out * value,
            where,
            dtype=DOUBLE,
        )
        for name, factor, factor_out in (("first", 1.0, 1.0), ("second", 0.0, -1.0))
    }
    after = SoftmaxSublayer(heads).collapsed(tokens, lambda label, value, reach: None)
    return after[0 : 2 * len(case.X) : 2, layout.slice("u")]


# -- what is certified for ours -------------------------------------------------------------------


@dataclass(frozen=True)
class NewtonBound:
    """Bounds on |U_k - M_k X^T|_F for k = 0 .. steps, and of the prediction made from the last."""

    path: list[float]
    prediction: float


def newton_bound(program: Program, case: Case, steps: int) -> NewtonBound:
    """Errors of the products, carried through the iteration.

    With P = X U and Q = U X an error E of U becomes (I - Q) E + E (I - P) - E X E, and a step adds at most
    N e |U|, e the certified error of one product. |I - P| + |I - Q| = 1 + |I - M_k S| if N > d.
    """
    codec = program.codec
    assert isinstance(codec, NewtonCodec)
    o, X, n = codec.options, case.X, len(case.X)
    tokens, u = 2 * n + 2, torch.finfo(DOUBLE).eps / 2
    first = bilinear_certificate(o.products, o.x_reach**2, tokens).sup_error
    last = bilinear_certificate(o.scaled, o.leverage, tokens).sup_error
    each = program.certificate.sup_error
    size = float(torch.linalg.matrix_norm(X, 2))
    rounding = 16 * u * (n + X.shape[1])
    error = o.alpha * n * size * first + rounding * o.alpha * size**3
    path = [error]
    eyes = [torch.eye(m, dtype=DOUBLE) for m in (n, X.shape[1])]
    for M in islice(newton_schulz(X, o.alpha), steps):
        U = M @ X.T
        grows = sum(
            float(torch.linalg.matrix_norm(eye - A, 2))
            for eye, A in zip(eyes, (X @ U, U @ X), strict=True)
        )
        new = (n * each + rounding * math.sqrt(n)) * float(torch.linalg.matrix_norm(U, 2))
        error = grows * error + size * error**2 + new + 2 * n * each * error
        path.append(error)
    labels, query = float(case.y.abs().sum()), float(case.query.norm(dim=-1).max())
    w = float(case.y.norm()) * (error + float(torch.linalg.matrix_norm(torch.linalg.pinv(X), 2)))
    prediction = labels * last + query * float(case.y.norm()) * error + rounding * query * w
    return NewtonBound(path, prediction)
