"""How far one step of a compiled linear model can be from the exact step, from the same weights.

Per example, with A_i = sum_j |w_j x_ij| + |b| + |y_i| and u the unit round-off:
    the head reads s_i up to (d + 4) u A_i and applies f up to e(s_i), so f is off by
        e_i = e(s_i) + f'_max (d + 4) u A_i
and the step, entry j, by
    lr/n sum_i |x_ij| (e_i + e_y(y_i)) + lr (n + 12) u 1/n sum_i |x_ij| (|f_i| + |y_i|) + 8 u |w_j|
of which the last two are rounding, counted once for the transformer and once for the oracle. The
proximal map is non-expansive and adds one rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.mechanisms.cot_linear.codec import LinearModelCodec
from icgd.problems import LinearModelSpec
from icgd.transformer.gadgets.heads.link_head import GridOptions, HeadTable
from icgd.transformer.gadgets.heads.spectral_theory import (
    head_error_polynomial,
    make_geometry,
    pairwise_error_polynomial,
)
from icgd.transformer.nn.chain.grid_reader import PairReader, table_reader
from icgd.transformer.program import Program
from icgd.transformer.runtime.executors.choose import ExecutorName


@dataclass(frozen=True)
class StepBound:
    """Everything the bound needs of a program."""

    spec: LinearModelSpec
    lr: float
    unit_roundoff: float
    slope_error: Callable[[Tensor, Tensor], Tensor]
    target_error: Callable[[Tensor], Tensor] | None
    dense: bool

    def __call__(self, w: Tensor, X: Tensor, y: Tensor) -> Tensor:
        """The bound for every entry of w; leading axes are independent problems."""
        spec, u = self.spec, self.unit_roundoff
        d, n = spec.n_features, X.shape[-2]
        X, y, w = X.double(), y.double(), w.double()
        weight = w[..., :d]
        s = (X @ weight.unsqueeze(-1)).squeeze(-1)
        size = (X.abs() @ weight.abs().unsqueeze(-1)).squeeze(-1)
        if spec.intercept:
            s, size = s + w[..., d:], size + w[..., d:].abs()
        reads_y = spec.loss.form == "residual"
        query = s - y if reads_y else y * s if spec.loss.form == "margin" else s
        size = size + y.abs() if reads_y else size
        slope = spec.loss.slope_of(s, y).abs()
        ds = (d + 4) * u * size
        steepest = self._steepest(float(query.abs().max()), float(y.abs().max()))
        # A literal head forms s inside its scores, where every token rounds it anew.
        error = self.slope_error(query, size if self.dense else query.abs()) + steepest * ds
        total = slope
        if self.target_error is not None:
            error, total = error + self.target_error(y.abs()), slope + 2 * y.abs()
        rounding = 2 * (n + 12) * u
        per_example = error + rounding * total
        bound = self.lr * (per_example.unsqueeze(-2) @ X.abs()).squeeze(-2) / n
        moved = weight.abs() * (1.0 + self.lr * spec.lam)
        if spec.penalty == "l1":
            moved = moved + self.lr * spec.lam
        bound = bound + 8 * u * moved
        if not spec.intercept:
            return bound
        bias = self.lr * per_example.mean(dim=-1, keepdim=True) + 8 * u * w[..., d:].abs()
        return torch.cat([bound, bias], dim=-1)

    def _steepest(self, radius: float, y_radius: float) -> float:
        low, high = self.spec.loss.bends(max(radius, 1e-3), max(y_radius, 1e-3))
        return 1.1 * max(abs(low), abs(high))


def linear_model_codec(program: Program) -> LinearModelCodec:
    """The codec of a linear model's program."""
    codec = program.codec
    if not isinstance(codec, LinearModelCodec):
        raise InvalidParameter("program", program.construction.name, "fit a linear model")
    return codec


def step_bound(program: Program, executor: ExecutorName) -> StepBound:
    """The bound of a program, from the certificates of its heads."""
    codec = linear_model_codec(program)
    spec, options, tables = codec.spec, codec.options, codec.tables
    dense = executor == "dense"
    u = torch.finfo(program.dtype).eps / 2
    terms = spec.n_features + 2 if dense else 1
    if spec.loss.name == "squared":
        slope_error = _reading(tables.slope, options.grid, u, terms)
    else:
        slope_error = _certified(tables.slope, terms, u, spec)
    target_error = None
    if tables.target is not None:
        plain = replace(options.plain, radius=options.target_radius)
        reads = _reading(tables.target, plain, u, terms)
        target_error = lambda size: reads(size, size)  # noqa: E731
    lr = program.optimizer.lr
    return StepBound(spec, lr, u, slope_error, target_error, dense)


def _reading(
    table: HeadTable, grid: GridOptions, u: float, terms: int
) -> Callable[[Tensor, Tensor], Tensor]:
    """Error of a head that passes a number on."""
    g = make_geometry(grid.n_grid, grid.rho, grid.margin, grid.radius, grid.temperature)
    reader = table_reader(table.rates[0], table.offset, table.values, table.radius)
    if terms == 1 and isinstance(reader, PairReader) and reader.equally_spaced:
        c0, c1, c2 = pairwise_error_polynomial(g, u)
    else:
        c0, c1, c2 = head_error_polynomial(g, u, terms)
    return lambda s, size: c0 + c1 * size + c2 * size * size


def _certified(
    table: HeadTable, terms: int, u: float, spec: LinearModelSpec
) -> Callable[[Tensor, Tensor], Tensor]:
    """The certificate of a head, and with literal matrices what forming s inside the scores adds.

    There token k's score is off by (terms + 3) u |rate_k| times the size of the terms of s, each token by
    itself, and the mean by what a token weighs times how far its value is from the mean.
    """
    error, dense = table.certificate.sup_error, terms > 1
    factor = (3 + terms) / 2 if dense else 1.0
    rate, offset, values = table.rates[0], table.offset, table.values

    def bound(s: Tensor, size: Tensor) -> Tensor:
        promised = (
            factor * error * (spec.loss.slope(s).abs() if table.relative else torch.ones_like(s))
        )
        if not dense or len(table.rates) > 1:
            return promised
        weights = torch.softmax(s.unsqueeze(-1) * rate + offset, dim=-1)
        away = (values - (weights @ values).unsqueeze(-1)).abs()
        return promised + 1.2 * (terms + 3) * u * size * (weights * rate.abs() * away).sum(-1)

    return bound
