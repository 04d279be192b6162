"""Damage that knows the structure of a file: bytes, JSON values, and tensors with their header."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from icgd.base.atomic.tensors import tensor_bytes

STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**60,
    -(2**70),
    10**400,
    1e308,
    -0.0,
    1e-320,
    float("nan"),
    float("inf"),
    "",
    "x",
    "f8",
    "\u0000",
    "0.1",
    "ü" * 300,
    [],
    [[]],
    [1, "a"],
    {},
    {"a": None},
    [None] * 7,
)
SMALL: tuple[Any, ...] = tuple(
    v for v in STRANGE if not (isinstance(v, int) and abs(v) > 1000) and v != 1e308
)
"""The same without numbers that ask for more memory than there is."""
HUGE_INTEGER = "9" * 5000
Choice = random.Random


def mutated_bytes(content: bytes, choose: Choice) -> bytes:
    """One flipped bit, or a piece lost, doubled, zeroed or overwritten."""
    at = choose.randrange(max(1, len(content)))
    length = choose.choice((1, 2, 7, 64, 4096))
    kind = choose.randrange(6)
    if kind == 0 and content:
        flipped = content[at] ^ (1 << choose.randrange(8))
        return content[:at] + bytes([flipped]) + content[at + 1 :]
    if kind == 1:
        return content[:at]
    if kind == 2:
        return content[:at] + content[at + length :]
    if kind == 3:
        return content[:at] + content[at : at + length] + content[at:]
    if kind == 4:
        return content[:at] + bytes(length) + content[at + length :]
    return content[:at] + b"\xff" + content[at + 1 :]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        found += _places(item, (*path, key))
    return found


def mutated_json(value: Any, choose: Choice, strange: tuple[Any, ...] = STRANGE) -> Any:
    """A copy in which one value was replaced, removed, renamed, doubled or exchanged with another."""
    changed = copy.deepcopy(value)
    places = [path for path in _places(changed) if path]
    if not places:
        return choose.choice(strange)
    path = choose.choice(places)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    key, kind = path[-1], choose.randrange(6)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[f"{key}_"] = parent.pop(key)
    elif kind == 2 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif kind == 3 and type(parent[key]) in (int, float):
        parent[key] = parent[key] * choose.choice((-1, 2, 0.5)) + choose.choice((0, 1))
    else:
        parent[key] = choose.choice(strange)
    return changed


def mutated_text(text: str, choose: Choice) -> bytes:
    """A JSON text with another value in it, another number of thousands of digits, or damaged bytes."""
    kind = choose.randrange(8)
    if kind == 0:
        return mutated_bytes(text.encode(), choose)
    if kind == 1:
        digits = [i for i, c in enumerate(text) if c.isdigit()]
        at = choose.choice(digits) if digits else 0
        return (text[:at] + HUGE_INTEGER + text[at:]).encode()
    return json.dumps(mutated_json(json.loads(text), choose)).encode()


def mutated_tensors(content: bytes, choose: Choice) -> bytes:
    """A safetensors file with damaged bytes, numbers or header."""
    kind = choose.randrange(4)
    if kind == 0:
        return mutated_bytes(content, choose)
    length = int.from_bytes(content[:8], "little")
    header, numbers = content[8 : 8 + length], content[8 + length :]
    if kind == 1 and numbers:
        return content[: 8 + length] + mutated_bytes(numbers, choose)
    if kind == 2:
        told = json.loads(header)
        name = choose.choice(sorted(told["__metadata__"]))
        text = told["__metadata__"][name]
        told["__metadata__"][name] = mutated_bytes(text.encode(), choose).decode("utf-8", "replace")
    else:
        told = mutated_json(json.loads(header), choose)
    changed = json.dumps(told).encode()
    return len(changed).to_bytes(8, "little") + changed + numbers


def forged(
    tensors: dict[str, Any], metadata: dict[str, str], choose: Choice, change: Callable[..., None]
) -> bytes:
    """A safetensors file that says something else and has a checksum that fits."""
    tensors, metadata = dict(tensors), {k: v for k, v in metadata.items() if k != "digest"}
    change(tensors, metadata, choose)
    return tensor_bytes(tensors, metadata)
