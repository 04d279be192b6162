"""Everything a program is built from, all choices made: what compile hands to build, and files to load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from pydantic import BaseModel

from icgd.base.construction import Construction
from icgd.base.preflight import Part, require_room
from icgd.errors import InvalidParameter, TooLarge

DTYPES = {"float64": torch.float64, "float32": torch.float32}
PARTS = ("construction", "problem", "optimizer", "options", "dtype")
"""What a config consists of."""


@dataclass(frozen=True)
class Blueprint:
    """A construction with its problem, optimizer and options.

    problem, optimizer  objects, as `icgd.compile` takes them
    options             numbers and names, every default filled in
    fitted              tokens fitted to a function that no file can hold, by what they are fitted to
    """

    construction: Construction
    problem: Any
    optimizer: Any
    options: Mapping[str, Any]
    dtype: torch.dtype = torch.float64
    fitted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """The same as numbers, names and lists, for files; it holds what the schema of a file asks for."""
        schema = self.construction.load("schema")
        parts = {
            "problem": _described(self.problem),
            "optimizer": {"name": type(self.optimizer).__name__, **_described(self.optimizer)},
            "options": dict(self.options),
        }
        if schema is not None:
            parts = {name: _asked_for(schema, name, values) for name, values in parts.items()}
        dtype = str(self.dtype).removeprefix("torch.")
        own = dict(zip(PARTS, (self.construction.name, *parts.values(), dtype), strict=True))
        return {**own, "tables": self.fitted} if self.fitted else own

    @classmethod
    def read(cls, construction: Construction, config: Mapping[str, Any]) -> Blueprint:
        """What a config describes."""
        described = dict(config["optimizer"])
        name = described.pop("name")
        known = {kind.__name__: kind for kind in construction.types("optimizer")}
        if name not in known:
            raise InvalidParameter(
                "optimizer", name, f"be {' or '.join(known)} for {construction.name}"
            )
        kinds = construction.types("problem")
        make = getattr(kinds[0], "from_config", lambda values: kinds[0](**values))
        return cls(
            construction,
            make(config["problem"]),
            known[name](**described),
            dict(config["options"]),
            DTYPES[config["dtype"]],
            config.get("tables") or {},
        )

    def check(self) -> None:
        """Refuse a step size that is no ordinary number of the precision, and a program that does not fit."""
        for name in ("lr", "alpha"):
            value = getattr(self.optimizer, name, None)
            if isinstance(value, float):
                _check_ordinary(name, value, self.dtype)
        check_size(self.construction, self.config)


def check_size(construction: Construction, config: Mapping[str, Any]) -> None:
    """Refuse a config whose program would not fit, before anything is built."""
    size = construction.load("size")
    if size is None:
        return
    name = construction.name
    try:
        parts: list[Part] = size(config)
    except OverflowError:
        raise TooLarge(f"Compiling {name} takes more memory than there are numbers for.") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        return  # a config out of a damaged file, of which the builder says what is wrong
    require_room(f"Compiling {name}", parts)


def _described(value: Any) -> dict[str, Any]:
    """A problem or an optimizer by the names of its fields."""
    if hasattr(value, "to_config"):
        return dict(value.to_config())
    if not is_dataclass(value):
        raise InvalidParameter(
            type(value).__name__,
            value,
            "be a dataclass, or have to_config() and from_config()",
            remedy="Programs are saved with the problem and the optimizer they were compiled for.",
        )
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _asked_for(schema: type[BaseModel], part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    model = schema.model_fields[part].annotation
    names = getattr(model, "model_fields", None)
    return dict(values) if names is None else {n: values[n] for n in names if n in values}


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
