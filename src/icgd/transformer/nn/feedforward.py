"""Feed-forward layers written as groups of ReLU units on named slots.

Every weight of the literal matrices is one entry of one parameter here, so the compact form and the
dense form are the same network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from icgd.errors import AssumptionViolated, LayoutError
from icgd.transformer.layout import Layout
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.symbolic import Builder, Const, Zero, once_fixed, uniform


def frozen(value: float | Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> nn.Parameter:
    """A weight that no optimizer will touch."""
    if not isinstance(value, Tensor):
        if not abs(value) <= torch.finfo(dtype).max:
            raise AssumptionViolated(
                f"A weight of the transformer would be {float(value):.3g}, more than {dtype} can hold. Compile "
                "with a smaller lr, lam or radius, or with dtype=torch.float64."
            )
        value = torch.full(shape, float(value), dtype=dtype)
    full = value
    return nn.Parameter(full.to(dtype).expand(shape).clone(), requires_grad=False)


class UnitGroup(Protocol):
    """ReLU units of a feed-forward layer that are written into its matrices together."""

    @property
    def size(self) -> int:
        """How many units the group has."""

    def check(self, source: Layout, target: Layout) -> None:
        """Refuse slots that the weights do not fit."""

    def fill(self, into: UnitMatrices) -> None:
        """Write the weights into the rows and columns of these units."""


@dataclass(frozen=True)
class UnitMatrices:
    """The matrices of a feed-forward layer, and which of its units a group is.

    unit  their numbers
    """

    source: Layout
    target: Layout
    W_in: Tensor
    b_in: Tensor
    W_out: Tensor
    unit: Tensor


class FeedForwardPart(nn.Module, ABC):
    """Something a feed-forward layer is made of: ReLU units, a linear path, a constant."""

    def units(self) -> Sequence[UnitGroup]:
        """The literal ReLU units; a path or a constant has none."""
        return []

    @abstractmethod
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""

    @abstractmethod
    def emit(self, b: Builder) -> None:
        """The same effect on symbolic values."""


class UnitGadget(FeedForwardPart):
    """Groups of units that do something together, which can be said more shortly than unit by unit.

    The short cut is taken only while every weight is the compiled one, so that an altered weight
    changes the structured evaluation as it changes the literal matrices.
    """

    @abstractmethod
    def units(self) -> list[Units]:
        """The groups of units, in the order of the dense matrices."""

    @abstractmethod
    def emit_short(self, b: Builder) -> bool:
        """Write the effect of the compiled weights; False, and nothing written, if only units can."""

    @once_fixed
    def is_plain(self) -> bool:
        """See FeedForwardPart."""
        return all(group.is_plain() for group in self.units())

    def emit(self, b: Builder) -> None:
        """See FeedForwardPart."""
        if not (self.is_plain() and self.emit_short(b)):
            self.emit_units(b)

    def emit_units(self, b: Builder) -> None:
        """The literal units, one group after the other."""
        for group in self.units():
            group.emit(b)


class Units(FeedForwardPart):
    """ReLU units, one per entry of a slot shape: out += write * relu(bias + sum read * slot).

    A slot of the group's shape is read entry by entry; a scalar slot (a flag) is read by all.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        reads: Mapping[str, float],
        writes: Mapping[str, float],
        *,
        bias: float = 0.0,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.read = nn.ParameterDict({s: frozen(c, shape, dtype) for s, c in reads.items()})
        self.write = nn.ParameterDict({s: frozen(c, shape, dtype) for s, c in writes.items()})

        def stored(value: float) -> float:
            return float(torch.tensor(value, dtype=dtype))

        # As the parameters hold them: rounded to their precision.
        self._compiled = (
            {slot: stored(c) for slot, c in reads.items()},
            {slot: stored(c) for slot, c in writes.items()},
            stored(bias),
        )
        # No parameter for an absent bias: a weight that is always zero would be dead weight.
        self.bias = frozen(bias, shape, dtype) if bias else None

    @property
    def size(self) -> int:
        """How many units the group has."""
        return next(iter(self.write.values())).numel()

    def check(self, source: Layout, target: Layout) -> None:
        """See UnitGroup."""
        for slot in self.read:
            if source[slot].shape not in (self.shape, ()):
                _refuse(source, slot, self.shape)
        for slot in self.write:
            if target[slot].shape != self.shape:
                _refuse(target, slot, self.shape)

    def fill(self, into: UnitMatrices) -> None:
        """See UnitGroup."""
        if self.bias is not None:
            into.b_in[into.unit] = self.bias.data.reshape(-1)
        for slot, coef in self.read.items():
            places = _coordinates(into.source, slot, self.size)
            into.W_in[places, into.unit] = coef.data.reshape(-1)
        for slot, coef in self.write.items():
            places = _coordinates(into.target, slot, self.size)
            into.W_out[into.unit, places] = coef.data.reshape(-1)

    def units(self) -> list[Units]:
        """The group itself."""
        return [self]

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        reads, writes, bias = self._compiled
        return (
            all(uniform(self.read[slot]) == coef for slot, coef in reads.items())
            and all(uniform(self.write[slot]) == coef for slot, coef in writes.items())
            and (self.bias is None or uniform(self.bias) == bias)
        )

    def emit(self, b: Builder) -> None:
        """Evaluate every unit entry by entry; constants are folded when no tensor is involved."""
        like = next(iter(self.write.values()))
        fixed = torch.zeros_like(like) if self.bias is None else self.bias.data.clone()
        tensors = []
        for slot, coef in self.read.items():
            value = b.read(slot)
            if isinstance(value, Const):
                fixed = fixed + coef.data * value.value
            elif not isinstance(value, Zero):
                tensors.append((b.tensor(value, like), coef.data))
        if not tensors:
            self._emit_constant(b, fixed.relu())
            return
        coefs = [coef for _, coef in tensors]

        def evaluate(*inputs: Tensor) -> Tensor:
            total = fixed
            for coef, value in zip(coefs, inputs, strict=True):
                total = total + coef * value
            return total.relu()

        result = b.compute(evaluate, [reg for reg, _ in tensors])
        for slot, coef in self.write.items():
            b.write(slot, result, coef.data)

    def _emit_constant(self, b: Builder, active: Tensor) -> None:
        for slot, coef in self.write.items():
            contribution = active * coef.data
            value = uniform(contribution)
            if value == 0.0:
                continue
            if not self.shape and value is not None:
                b.write(slot, Const(value))
            else:
                b.write(slot, b.compute(lambda c=contribution: c, []))


class Skip(FeedForwardPart):
    """A linear path target += coef * source between slots of one shape."""

    def __init__(
        self, source: str, target: str, shape: tuple[int, ...], coef: float, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.coef = frozen(coef, shape, dtype)
        self._compiled = float(self.coef.reshape(-1)[0])

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        return uniform(self.coef) == self._compiled

    def emit(self, b: Builder) -> None:
        """Pass the value on, scaled."""
        value = b.read(self.source)
        if isinstance(value, Zero):
            return
        scale = uniform(self.coef)
        b.write(self.target, value, self.coef.data if scale is None else scale)


class Constant(FeedForwardPart):
    """An output bias on a scalar slot."""

    def __init__(self, target: str, value: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.target = target
        self.value = frozen(value, (), dtype)
        self._compiled = float(self.value)

    @once_fixed
    def is_plain(self) -> bool:
        """Whether the constant is the one that was compiled."""
        return uniform(self.value) == self._compiled

    def emit(self, b: Builder) -> None:
        """Write the constant."""
        b.write(self.target, Const(float(self.value)))


class FeedForward(nn.Module):
    """target = skip(source) + W_out relu(W_in source + b_in) + b_out, given by named parts."""

    def __init__(
        self,
        source: Layout,
        target: Layout,
        parts: Mapping[str, FeedForwardPart],
        skips: Sequence[Skip] = (),
        constants: Sequence[Constant] = (),
    ) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.parts = named_parts("parts", parts)
        self.skips = nn.ModuleDict({f"{s.source}>{s.target}": s for s in skips})
        self.constants = named_parts("constants", {c.target: c for c in constants})
        for group in self.unit_groups():
            group.check(source, target)
        for skip in skips:
            shape = tuple(skip.coef.shape)
            for layout, slot in ((source, skip.source), (target, skip.target)):
                if layout[slot].shape != shape:
                    _refuse(layout, slot, shape)

    def unit_groups(self) -> list[UnitGroup]:
        """Every group of units, in the order of the dense matrices."""
        return [group for part in self.gadgets() for group in part.units()]

    def gadgets(self) -> Iterable[FeedForwardPart]:
        """The parts that are made of units."""
        return cast("Iterable[FeedForwardPart]", self.parts.values())

    def paths(self) -> Iterable[FeedForwardPart]:
        """Skips and constants."""
        linear = (*self.skips.values(), *self.constants.values())
        return cast("Iterable[FeedForwardPart]", linear)

    def emit(self, b: Builder) -> None:
        """Describe the whole layer on symbolic values."""
        for part in (*self.gadgets(), *self.paths()):
            part.emit(b)

    def dense(self) -> DenseFeedForward:
        """The literal matrices."""
        groups = self.unit_groups()
        like = next(self.parameters())
        n_units = sum(group.size for group in groups)
        W_in = like.new_zeros(self.source.width, n_units)
        b_in = like.new_zeros(n_units)
        W_out = like.new_zeros(n_units, self.target.width)
        start = 0
        for group in groups:
            unit = torch.arange(start, start + group.size)
            start += group.size
            group.fill(UnitMatrices(self.source, self.target, W_in, b_in, W_out, unit))
        W_skip = like.new_zeros(self.source.width, self.target.width)
        for skip in self.skips.values():
            assert isinstance(skip, Skip)
            rows, cols = self.source.index(skip.source), self.target.index(skip.target)
            W_skip[rows.reshape(-1), cols.reshape(-1)] = skip.coef.data.reshape(-1)
        b_out = like.new_zeros(self.target.width)
        for constant in self.constants.values():
            assert isinstance(constant, Constant)
            b_out[self.target.slice(constant.target)] = constant.value.data
        return DenseFeedForward(W_in, b_in, W_out, b_out, W_skip)


def _refuse(layout: Layout, slot: str, shape: tuple[int, ...]) -> None:
    raise LayoutError(
        f"Weights of shape {shape} cannot act on slot `{slot}` of shape {layout[slot].shape}."
    )


def _coordinates(layout: Layout, slot: str, size: int) -> Tensor:
    return layout.index(slot).reshape(-1).expand(size)


class DenseFeedForward(nn.Module):
    """The same feed-forward layer as literal matrices, tokens as rows."""

    def __init__(
        self, W_in: Tensor, b_in: Tensor, W_out: Tensor, b_out: Tensor, W_skip: Tensor
    ) -> None:
        super().__init__()
        self.W_in = nn.Parameter(W_in, requires_grad=False)
        self.b_in = nn.Parameter(b_in, requires_grad=False)
        self.W_out = nn.Parameter(W_out, requires_grad=False)
        self.b_out = nn.Parameter(b_out, requires_grad=False)
        self.W_skip = nn.Parameter(W_skip, requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map every token by itself."""
        hidden = torch.relu(tokens @ self.W_in + self.b_in)
        return tokens @ self.W_skip + hidden @ self.W_out + self.b_out
