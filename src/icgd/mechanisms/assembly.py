"""How every compiler ends: a config that can be stored, and a program whose weights are frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.config_schemas import SCHEMAS
from icgd.transformer.certificate import Certificate
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import StateMask
from icgd.transformer.nn.frozen_layer import FrozenLayer
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program import Program
from icgd.transformer.program.session import Codec

DTYPES = {"float64": torch.float64, "float32": torch.float32}
PARTS = ("construction", "problem", "optimizer", "options", "dtype")
"""What a config consists of."""
Program.schemas.update(SCHEMAS)


def make_config(
    construction: str,
    dtype: torch.dtype,
    *,
    problem: Mapping[str, Any],
    optimizer: Mapping[str, Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """All that is needed to compile the same program again, as numbers, names and lists."""
    for name in {"lr", "alpha"} & optimizer.keys():
        _check_ordinary(name, float(optimizer[name]), dtype)
    name = str(dtype).removeprefix("torch.")
    return dict(zip(PARTS, (construction, problem, optimizer, options, name), strict=True))


def _check_ordinary(name: str, value: float, dtype: torch.dtype) -> None:
    """A step size that becomes 0 or infinity in the program's precision trains nothing, or nothing finite."""
    limits = torch.finfo(dtype)
    if not limits.tiny <= value <= limits.max:
        raise InvalidParameter(
            name,
            value,
            f"lie between {limits.tiny:.2g} and {limits.max:.2g}, the ordinary numbers of {dtype}",
            remedy="Scale the data, or compile with dtype=torch.float64.",
        )


def own_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of the config of a file, which says more, what `make_config` makes."""
    return {key: config[key] for key in PARTS}


def state_program(
    config: Mapping[str, Any],
    *,
    step: FrozenLayer,
    layout: Layout,
    codec: Codec,
    certificate: Certificate,
    entry: FrozenLayer | None = None,
    readout: FrozenLayer | None = None,
    slope: float = 1.0,
) -> Program:
    """A program whose one block is replaced at every step."""
    return Program(
        config=own_config(config),
        entry=entry,
        step=step,
        readout=readout,
        mask=StateMask(),
        layout=layout,
        codec=codec,
        certificate=certificate,
        slope=slope,
        feed="replace",
    ).requires_grad_(False)


class LoopBuilder(Protocol):
    """What stands before and after the layer that loops."""

    layout: Layout

    def entry(self) -> Stack:
        """Layers that prepare the prompt."""

    def readout(self) -> Stack:
        """Layers that answer."""


def looped_program(
    config: Mapping[str, Any],
    builder: LoopBuilder,
    step: Stack,
    *,
    codec: Codec,
    certificate: Certificate,
) -> Program:
    """The builder's entry, `step` in a loop, and the builder's read-out."""
    return state_program(
        config,
        entry=builder.entry(),
        step=step,
        readout=builder.readout(),
        layout=builder.layout,
        codec=codec,
        certificate=certificate,
    )
