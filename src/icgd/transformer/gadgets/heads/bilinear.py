"""scale * sum_s v_s <q_i, k_s> by attention: the product that every looped construction is made of.

Four modes of one gadget. "spectral": one softmax head per token, exact to rounding. "sym", "printed",
"four": two, two and four softmax heads in their linear range, with a sink token that takes nearly all
of the attention (product_theory.py). A token whose key or query is zero takes no part, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.heads.link_head import GridOptions, identity_table
from icgd.transformer.gadgets.heads.product_theory import SINK, error_law, last_place, linearised
from icgd.transformer.layout import Layout
from icgd.transformer.nn.stack.softmax_sublayer import (
    Rows,
    SoftmaxHead,
    SoftmaxSublayer,
    linear_rows,
    stacked,
)
from icgd.transformer.nn.stack.spectral_sublayer import SpectralSublayer
from icgd.transformer.nn.stack.stack import Sublayer

GRID = {torch.float64: (1.4, 8.25), torch.float32: (1.4, 6.0)}
ROOM = 16.0
"""A spectral head costs no digits for a larger range: leave some."""


@dataclass(frozen=True)
class BilinearOptions:
    """How products are computed.

    mode   "spectral", "sym", "four" or "printed"
    C, c   sink score and scale of the linearised modes; chosen from the bound unless given
    n_grid tokens of a spectral head
    """

    mode: str = "spectral"
    C: float | None = None
    c: float | None = None
    n_grid: int = 32
    dtype: torch.dtype = torch.float64

    @property
    def sink(self) -> float:
        """The sink's score."""
        u = torch.finfo(self.dtype).eps / 2
        return SINK[u] if self.C is None else self.C

    @property
    def ulp(self) -> float:
        """The unit in the sink score's last place: what other scores are rounded to."""
        return last_place(self.sink, torch.finfo(self.dtype).eps)

    @property
    def room(self) -> float:
        """By how much a range may exceed what is expected without costing digits.

        >>> BilinearOptions("spectral").room, BilinearOptions("sym").room
        (16.0, 1.0)
        """
        return ROOM if self.mode == "spectral" else 1.0

    def scaled_for(self, usual: float) -> BilinearOptions:
        """The scale c that is best for numbers up to `usual`, also where heads are watched for a larger bound.

        Rounding is the same for all numbers and curvature is largest for the few largest, so that sums of
        mostly small numbers want a larger c than their bound does.

        >>> BilinearOptions("spectral").scaled_for(1.0).c is None
        True
        """
        if self.mode == "spectral" or self.c is not None:
            return self
        return replace(self, c=linearised(self.mode, usual, C=self.sink, ulp=self.ulp).c)


@dataclass(frozen=True)
class Bilinear:
    """What to multiply with what: lists of groups of components on the query and on the key side.

    query, key    groups whose inner product is s; group g of one meets group g of the other
    value, out    what is multiplied, and the slot it is added to
    scale         factor of the sum
    bound         promised bound on |s| for tokens that matter; watched while running
    one, sink     1 in every token, and the slot that is 1 in the sink alone (linearised modes)
    fixed         further (query rows, key rows) groups of the score that are not scaled, such as
                  masks (linearised modes)
    sink_query    what meets the sink beside `one`: log of a count makes a mean (linearised modes)
    """

    query: Sequence[Rows]
    key: Sequence[Rows]
    value: Rows
    out: str
    scale: float
    bound: float
    one: Rows = (("one", 1.0),)
    sink: str = "sink"
    fixed: Sequence[tuple[Rows, Rows]] = field(default_factory=tuple)
    sink_query: Rows = field(default_factory=tuple)


def bilinear_layer(
    layout: Layout,
    product: Bilinear,
    options: BilinearOptions,
    *,
    causal: bool = False,
    label: str = "product",
) -> Sublayer:
    """The sublayer that adds scale * sum_s v_s <q_i, k_s>.

    Statement: [ALGO] Lemma A.2

    Differs from the paper: a second head and the signs are not printed there; "sym" has the same two
    heads and an error of second order in c, "spectral" none but rounding.
    """
    p, dtype = product, options.dtype
    query, key = stacked(layout, p.query), stacked(layout, p.key)
    value, target = linear_rows(layout, p.value), layout.index(p.out).reshape(-1)
    if options.mode == "spectral":
        rho, margin = GRID[dtype]
        table = identity_table(GridOptions(options.n_grid, rho, margin, p.bound, "spectral", dtype))
        return SpectralSublayer(
            query,
            key,
            value,
            target,
            rates=table.rates[0],
            offset=table.offset,
            levels=table.values,
            scale=p.scale,
            radius=p.bound,
            dtype=dtype,
            causal=causal,
            label=label,
        )
    C = options.sink
    linear = linearised(options.mode, p.bound, C=C, c=options.c, ulp=options.ulp)
    rest_query = [linear_rows(layout, [*((slot, C * f) for slot, f in p.one), *p.sink_query])]
    rest_key = [linear_rows(layout, [(p.sink, 1.0)])]
    for asks, keys in p.fixed:
        rest_query.append(linear_rows(layout, asks))
        rest_key.append(linear_rows(layout, keys))
    weight = torch.tensor(C, dtype=torch.float64).exp() * p.scale
    heads = {
        f"head{h}": SoftmaxHead(
            torch.cat([factor * query, *rest_query]),
            torch.cat([key, *rest_key]),
            weight * height * value,
            target,
            dtype=dtype,
            label=label,
            watched=(query, key, p.bound) if h == 0 else None,
            option="x_radius",
        )
        for h, (factor, height) in enumerate(linear.heads)
    }
    return SoftmaxSublayer(heads, causal=causal)


def bilinear_certificate(options: BilinearOptions, bound: float, n_tokens: int) -> Certificate:
    """Error of sum_s v_s s_s per unit of sum |v_s|, for |s| <= bound."""
    if options.mode == "spectral":
        rho, margin = GRID[options.dtype]
        grid = GridOptions(options.n_grid, rho, margin, bound, "spectral", options.dtype)
        return identity_table(grid).certificate
    C, ulp = options.sink, options.ulp
    linear = linearised(options.mode, bound, C=C, c=options.c, ulp=ulp)
    law = error_law(options.mode, n_tokens=n_tokens, C=C, z=linear.c * bound, ulp=ulp)
    # Leading orders only: a factor 2 covers the rest for z < 1, and the certificate says so.
    return Certificate(
        f"bilinear[{options.mode}]",
        bound,
        2 * law * bound,
        1.0,
        1 / linear.c,
        n_tokens,
        rigorous=False,
    )
