"""User data and weights to blocks of the prompt, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.checked_data import (
    check_epochs,
    check_rows,
    checked_examples,
    checked_weights,
    matching_weights,
    refuse_query,
    split_problems,
)
from icgd.problems import NetworkSpec, Weights
from icgd.problems.targets import check_targets
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.gadgets.heads.spectral_theory import GridGeometry
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.chain.grid_attention import GridAttention
from icgd.transformer.program.session import Session
from icgd.transformer.runtime.executors.chain import StructuredExecutor

DATA_FLAGS = {"not_forward": 1.0, "not_backward": 1.0}
LAYER_FLAGS = {"not_forward": 1.0, "not_data": 1.0}
CHUNK = 256
"""Rounds whose inputs are read off the grid in one call."""


def _shared_reader(executor: StructuredExecutor | None) -> Callable[[Tensor], Tensor] | None:
    """How heads read numbers, if all of them do it alike."""
    attention = executor.layer.attention if executor is not None else None
    if not isinstance(attention, GridAttention) or executor is None:
        return None
    alike = all(bank.is_plain() for bank in attention.head_banks())
    return attention.reader(executor.layer.radius) if alike else None


class NetworkCodec:
    """Blocks X_l, Y_l, B_i for a network; trained weights from the B blocks.

    Statement: [COT] Definition 4.3

    Differs from the paper: widths may differ; smaller layers stand in the corner of their slots.
    """

    def __init__(
        self,
        spec: NetworkSpec,
        geometry: GridGeometry,
        like: Sequence[Tensor],
    ) -> None:
        self.spec, self.geometry = spec, geometry
        # A one-element list holding a live parameter: it follows the program to other devices.
        self._like = like
        self.data_flags = dict(DATA_FLAGS)
        self.layer_flags = dict(LAYER_FLAGS)

    @property
    def like(self) -> Tensor:
        """A tensor with the program's dtype and device."""
        return self._like[0]

    def session(
        self,
        X: Any,
        Y: Any,
        *,
        init: Any,
        epochs: int | None = None,
        steps: int | None = None,
        padded: bool,
        query: Any = None,
    ) -> Session:
        """See Codec."""
        refuse_query(query)
        if steps is not None:
            raise InvalidParameter(
                "steps",
                steps,
                "be left out for SGD, which makes one round per row",
                remedy="Use epochs=...",
            )
        x = self._examples("X", X, self.spec.widths[0])
        y = self._examples("Y", Y, self.spec.widths[-1])
        check_rows(x, y)
        check_targets(self.spec.loss, y, "Y")
        weights = self._weights("init", init, x.shape[:-2])
        return self._session(x, y, weights, check_epochs(epochs), padded, predict=False)

    def prediction(self, X: Any, weights: Any, *, padded: bool) -> tuple[Session, Address]:
        """See Codec."""
        x = self._examples("X", X, self.spec.widths[0])
        x, checked = matching_weights(self.spec, x, weights, self.like)
        session = self._session(x, None, checked, 1, padded, predict=True)
        return session, ("F", self.spec.n_layers)

    def output_of(self, block: Block) -> Tensor:
        """See Codec."""
        out = block.value("out")
        if not isinstance(out, Tensor):
            raise AssumptionViolated(
                "The last forward step wrote no output: weights or mask of this program were altered after "
                "compiling. Compile it again."
            )
        return out[..., : self.spec.widths[-1]].unsqueeze(-2)

    def join(self, outputs: list[Tensor], session: Session) -> Tensor:
        """See Codec."""
        return torch.cat(outputs, dim=-2)

    def is_plain(self) -> bool:
        """See Codec."""
        return self.data_flags == DATA_FLAGS and self.layer_flags == LAYER_FLAGS

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Weights]]:
        """See Codec."""
        x = self._examples("X", X, self.spec.widths[0])
        y = self._examples("Y", Y, self.spec.widths[-1])
        check_rows(x, y)
        check_targets(self.spec.loss, y, "Y")
        return split_problems(x, y, self._weights("init", init, x.shape[:-2]))

    # -- checks -----------------------------------------------------------------------------------

    def _examples(self, name: str, value: Any, width: int) -> Tensor:
        return checked_examples(name, value, width, self.like, self.geometry.radius)

    def _weights(self, name: str, value: Any, batch: Sequence[int]) -> Weights:
        return checked_weights(self.spec, name, value, batch, self.like)

    # -- blocks -----------------------------------------------------------------------------------

    def _session(
        self,
        x: Tensor,
        y: Tensor | None,
        weights: Weights,
        epochs: int,
        padded: bool,
        *,
        predict: bool,
    ) -> Session:
        def arrivals(executor: StructuredExecutor | None) -> Iterator[Mapping[Address, Block]]:
            for _ in range(epochs):
                yield from self._arrivals(x, y, executor, padded)

        return Session(
            prompt={
                ("B", i): self._layer_block(i, W, b, padded) for i, (W, b) in enumerate(weights, 1)
            },
            arrivals=arrivals,
            n_rounds=epochs * x.shape[-2],
            batched=x.dim() == 3,
            n_problems=x.shape[0] if x.dim() == 3 else 1,
            structured_flops_per_round=self._structured_flops(predict),
            wanted=self._wanted(predict),
            decode=self._decode,
            n_columns=self.spec.d_model,
            units=dict(enumerate(self.spec.widths)),
        )

    def _layer_block(self, layer: int, W: Tensor, b: Tensor | None, padded: bool) -> Block:
        values: dict[str, Tensor | float] = {"weight": self._fit(W, padded, 2)}
        if b is not None:
            values["bias"] = self._fit(b, padded, 1)
        if self.spec.is_linear(layer):
            values["linear"] = 1.0
        return make_block({**values, **self.layer_flags})

    def _fit(self, value: Tensor, padded: bool, n_axes: int) -> Tensor:
        if not padded:
            return value
        pad = [n for axis in range(n_axes) for n in (0, self.spec.d_model - value.shape[-1 - axis])]
        return torch.nn.functional.pad(value, pad)

    def _arrivals(
        self, x: Tensor, y: Tensor | None, executor: StructuredExecutor | None, padded: bool
    ) -> Iterator[Mapping[Address, Block]]:
        read_grid = _shared_reader(executor)
        template = make_block({"out": x, **self.data_flags}).signature
        X, Y = Block({}, template), Block({}, template)
        for start in range(0, x.shape[-2], CHUNK):
            rows = self._fit(x[..., start : start + CHUNK, :], padded, 1)
            xs = rows.unbind(-2)
            hats = read_grid(rows).unbind(-2) if read_grid else None
            ys = None
            if y is not None:
                ys = self._fit(y[..., start : start + CHUNK, :], padded, 1).unbind(-2)
            for i, example in enumerate(xs):
                # Blocks of one kind: the number the executor gave the last one serves the next.
                X = Block({"out": example}, template, {"out": hats[i]} if hats else {}, kind=X.kind)
                if ys is None:
                    yield {("X", 0): X}
                else:
                    Y = Block({"out": ys[i]}, template, kind=Y.kind)
                    yield {("X", 0): X, ("Y", 0): Y}

    def _wanted(self, predict: bool) -> dict[Address, frozenset[str]]:
        n = self.spec.n_layers
        if predict:
            return {("F", n): frozenset({"out"})}
        return {("B", i): frozenset({"weight", "bias"}) for i in range(1, n + 1)}

    def _decode(self, live: Mapping[Address, Block]) -> Weights:
        weights: Weights = []
        for i in range(1, self.spec.n_layers + 1):
            block = live[("B", i)]
            d_out, d_in = self.spec.widths[i], self.spec.widths[i - 1]
            W = self._slot(block, "weight", 2)[..., :d_out, :d_in]
            b = self._slot(block, "bias", 1)[..., :d_out] if self.spec.bias else None
            weights.append((W, b))
        return weights

    def _slot(self, block: Block, slot: str, n_axes: int) -> Tensor:
        """A slot as a tensor, also where a block knows it to be constant."""
        value = block.value(slot)
        if isinstance(value, Tensor):
            return value
        return self.like.new_full((self.spec.d_model,) * n_axes, value)

    # -- numbers ----------------------------------------------------------------------------------

    def _structured_flops(self, predict: bool) -> int:
        """W o, and when training W^T delta and delta o^T; plus two sums over half the grid a query."""
        total = 0
        half = (self.geometry.n_grid + 1) // 2
        for d_in, d_out in zip(self.spec.widths, self.spec.widths[1:], strict=False):
            total += 2 * d_in * d_out * (1 if predict else 3)
            total += 4 * half * (d_in if predict else d_in + d_out)
        return total
