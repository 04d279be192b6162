"""Traces on disk: written atomically, read with every doubt."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from icgd.base.atomic import write_text
from icgd.errors import InvalidFile
from icgd.transformer.trace.arrays import LARGEST_UNFOLDED, decode
from icgd.transformer.trace.format import FORMAT, Trace

LARGEST = 256 * 2**20
"""Bytes above which a file is not even opened: recordings keep to a budget far below it."""
REMEDY = "Record it again: icgd run ... --trace."


def write_trace(trace: Trace, path: Path) -> None:
    """One line of strict JSON, or nothing; never what could not be read again."""
    for complaint in complaints(trace):
        raise InvalidFile(f"The trace for {path} contradicts itself: {complaint}.")
    text = json.dumps(
        {"format": FORMAT, **trace.model_dump(exclude_defaults=True)},
        separators=(",", ":"),
        allow_nan=False,
    )
    write_text(path, text + "\n")


def read_trace(path: Path) -> Trace:
    """A trace whose every reference leads somewhere; anything else is an InvalidFile."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise InvalidFile(
                f"{path} is {size / 2**20:.0f} MB, above the limit of {LARGEST // 2**20} MB for a trace. "
                "Record it with a smaller --trace-budget."
            )
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidFile(f"There is no trace {path}. {REMEDY}") from None
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path} is not a text file ({error}). {REMEDY}") from error
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}.") from error
    return parse_trace(text, str(path))


def parse_trace(text: str, source: str) -> Trace:
    """The same for text; `source` names it in messages."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFile(
            f"{source} is not valid JSON ({error}): truncated or damaged. {REMEDY}"
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("format"), str):
        raise InvalidFile(f"{source} is not a trace: it names no format. {REMEDY}")
    if content["format"] != FORMAT:
        raise InvalidFile(
            f"{source} has format {content['format'][:60]!r}; this version of icgd reads {FORMAT!r}. {REMEDY}"
        )
    try:
        trace = Trace.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:6])
        raise InvalidFile(
            f"{source} is not a valid trace: {where[:120]}: {first['msg']} ({error.error_count()} in all). "
            f"{REMEDY}"
        ) from error
    for complaint in complaints(trace):
        raise InvalidFile(f"{source} contradicts itself: {complaint}. {REMEDY}")
    return trace


def complaints(trace: Trace) -> Iterator[str]:
    """What a schema cannot say: references within their pools, indices within their lists."""
    counts: dict[str, int] = {}
    for name, pool in trace.arrays.items():
        counts[name] = pool.count
        try:
            decode(name, pool)
        except ValueError as error:  # binascii.Error is one
            yield f"pool {name} cannot be read: {error}"
    for where, reference in _references(trace):
        name, place, *shape = reference
        if not isinstance(name, str) or name not in counts or not all(map(_is_size, reference[1:])):
            yield f"{where} is no reference"
        elif place + math.prod(shape) > counts[name]:
            yield f"{where} points behind the end of pool {name}"
        elif max(reference[1:]) > LARGEST_UNFOLDED:  # beside a 0, which leaves nothing to point to
            yield f"{where} has an impossible shape"
    yield from _curve_complaints(trace)
    yield from _step_complaints(trace)


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 0


def _curve_complaints(trace: Trace) -> Iterator[str]:
    for name in ("error", "loss", "exact_loss", "range_use"):
        curve = getattr(trace.curves, name)
        if curve is not None and curve[2:] != [trace.n_rounds]:
            yield f"curve {name} has shape {curve[2:]} for {trace.n_rounds} rounds"
    if trace.rounds != sorted(set(trace.rounds)) or any(r > trace.n_rounds for r in trace.rounds):
        yield "rounds are not ascending, or beyond the last one"


def _step_complaints(trace: Trace) -> Iterator[str]:
    detailed = set(trace.rounds)
    for i, step in enumerate(trace.steps):
        if max([step.writes, *step.reads]) >= len(trace.blocks):
            yield f"step {i} names a block that is not there"
        if step.place >= len(trace.schedule):
            yield f"step {i} is not in the schedule"
        if step.round not in detailed:
            yield f"step {i} belongs to round {step.round}, which is not listed"
        if step.stages and len(step.stages) != len(trace.stages):
            yield f"step {i} has {len(step.stages)} stages of {len(trace.stages)}"
        for info, stage in zip(trace.stages, step.stages, strict=False):
            if stage.open and len(stage.open) != len(info.gates):
                yield f"step {i} tells {len(stage.open)} gates of {len(info.gates)}"


def _references(trace: Trace) -> Iterator[tuple[str, list[Any]]]:
    def of(where: str, values: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
        for value in values:
            if isinstance(value, list):
                yield where, value

    curves = trace.curves
    yield from of("a curve", (curves.error, curves.loss, curves.exact_loss, curves.range_use))
    for grid in trace.grids:
        yield from of(f"grid {grid.bank}", (grid.levels, grid.linear, grid.offset, grid.values))
    for i, block in enumerate(trace.blocks):
        yield from of(f"block {i}", (*block.slots.values(), *block.away.values()))
    for i, step in enumerate(trace.steps):
        for stage in step.stages:
            yield from of(f"step {i}", stage.slots.values())
            for heads in stage.heads:
                yield from of(f"step {i}", (heads.asked, heads.read, heads.weights))
