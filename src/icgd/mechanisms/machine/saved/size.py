"""What building a program of the machine takes, from its config alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from icgd.base.preflight import Part

Config = Mapping[str, Any]
ENTRY = 40.0
"""Bytes per entry of the largest register: the path by which registers pass the heads, made and copied."""
CONSTANT = 120.0
"""Bytes per number that stands in the prompt: a Python number in a list, a tensor, and its name."""
STEP = 2.5e4
"""Bytes per instruction: registers, routes, and the gates of its kind."""
SECONDS = {"fixed": 2e-3, "float": 1e-2}
"""Per instruction; thermometers have units for every bucket."""


def machine_size(config: Config) -> list[Part]:
    """The largest register, rows of softmax heads, constants, and steps one by one."""
    tapes = config["problem"]["tapes"].values()
    room = max((_room(register) for tape in tapes for register in _registers(tape)), default=0)
    rows = {_width(i) for tape in tapes for i in tape["instructions"] if i["opcode"] == "softmax"}
    numbers = sum(len(values) for tape in tapes for _, values in tape["constants"])
    steps = sum(len(tape["instructions"]) for tape in tapes)
    return [
        Part("largest register", f"{room:,} entries", ENTRY * room, 1e-8 * room),
        Part("softmax rows", sorted(rows), 40.0 * sum(width**2 for width in rows)),
        Part("constants", f"{numbers:,} numbers", CONSTANT * numbers, 1e-6 * numbers),
        Part("instructions", steps, STEP * steps, SECONDS[config["options"]["heads"]] * steps),
    ]


def _registers(tape: Mapping[str, Any]) -> Iterator[Any]:
    yield from tape["inputs"].values()
    yield from (register for register, _ in tape["constants"])
    yield from (instruction["output"] for instruction in tape["instructions"])


def _room(register: Any) -> int:
    """Flags stand with their complements."""
    _, shape, kind = register
    return int(math.prod(shape)) * (2 if kind == "flag" else 1)


def _width(instruction: Mapping[str, Any]) -> int:
    return int(instruction["output"][1][-1])
