"""Everything a program is built from, all choices made: what compile hands to build, and files to load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_origin, get_type_hints

import torch
from pydantic import BaseModel

from icgd.base.construction import Construction
from icgd.base.preflight import Part, require_room
from icgd.errors import AssumptionViolated, FaultyPlugin, InvalidParameter, TooLarge

if TYPE_CHECKING:
    from icgd.transformer.program.program import Program

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
            "problem": self._written("problem"),
            "optimizer": self._written("optimizer"),
            "options": dict(self.options),
        }
        if schema is not None:
            parts = {name: _asked_for(schema, name, values) for name, values in parts.items()}
        dtype = str(self.dtype).removeprefix("torch.")
        own = dict(zip(PARTS, (self.construction.name, *parts.values(), dtype), strict=True))
        return {**own, "tables": self.fitted} if self.fitted else own

    def _written(self, part: Literal["problem", "optimizer"]) -> dict[str, Any]:
        """A problem or an optimizer as a file has it: by name where there are several classes."""
        value = getattr(self, part)
        values = _described(value)
        if part == "problem" and len(self.construction.types(part)) == 1:
            return values
        kind = type(value).__name__
        if values.get("name", kind) != kind:
            raise InvalidParameter(
                f"{kind}.name",
                values["name"],
                f"be called otherwise: files keep the class of {_an(part)} under that name",
                remedy="Rename the field, or give the class to_config() and from_config() that do.",
            )
        return {"name": kind, **values}

    @classmethod
    def read(cls, construction: Construction, config: Mapping[str, Any]) -> Blueprint:
        """What a config describes."""
        return cls(
            construction,
            _read(construction, "problem", config["problem"]),
            _read(construction, "optimizer", config["optimizer"]),
            dict(config["options"]),
            DTYPES[config["dtype"]],
            config.get("tables") or {},
        )

    def build(self) -> Program:
        """The program, its weights as compiled."""
        from icgd.transformer.program.program import Program  # which is made of blueprints

        program = self.construction.apply("build", self)
        if not isinstance(program, Program):
            raise FaultyPlugin(
                f"`build` of the construction {self.construction.name!r} must give an icgd.Program. "
                f"Got {type(program).__name__}."
            )
        return program

    def check(self) -> None:
        """Refuse a step size that is no ordinary number of the precision, and a program that does not fit."""
        for name in ("lr", "alpha"):
            value = getattr(self.optimizer, name, None)
            if isinstance(value, float):
                _check_ordinary(name, value, self.dtype)
        if not self.construction.is_own:
            self._check_files()
        check_size(self.construction, self.config)

    def _check_files(self) -> None:
        """Refuse what would come back from a file as something else, before a program is made of it."""
        config = self.config
        try:
            stored = json.loads(json.dumps(config))
        except (TypeError, ValueError) as error:
            raise InvalidParameter(
                *_not_plain(config),
                "be made of numbers, texts, lists and dicts, as files are",
                remedy="Give the class to_config() and from_config(), or another field.",
            ) from error
        if stored["options"] != config["options"]:
            name = _different(stored["options"], config["options"])
            raise InvalidParameter(
                f"options[{name!r}]",
                config["options"].get(name),
                "come back from a file as it is",
                remedy="Files know lists, but no tuples, and texts as the only keys.",
            )
        for part in ("problem", "optimizer"):
            value = getattr(self, part)
            try:
                again = _read(self.construction, part, stored[part])
                same = replace(self, **{part: again}).config[part]
            except AssumptionViolated:
                continue  # it knows that files cannot hold it, and says so when one is read
            except InvalidParameter:
                raise
            except Exception as error:
                raise InvalidParameter(
                    part,
                    value,
                    f"be made again from what a file holds, {stored[part]}",
                    remedy=f"{type(error).__name__}: {error}. Give the class to_config() and from_config().",
                ) from error
            own = getattr(type(value), "from_config", None) is not None
            lost = "" if own else _not_passed(again, value)
            if (type(again) is not type(value) and not own) or same != config[part] or lost:
                name = _different(same, config[part]) or lost
                raise InvalidParameter(
                    part,
                    value,
                    f"come back from a file as it is, not as {again!r}"
                    + (f" (`{name}` differs)" if name else ""),
                    remedy="Give the class to_config() and from_config(), or register the class itself.",
                )


def _read(
    construction: Construction, part: Literal["problem", "optimizer"], config: Mapping[str, Any]
) -> Any:
    """The problem or optimizer that a file describes."""
    kinds, values = construction.types(part), dict(config)
    kind = kinds[0]
    if part == "optimizer" or len(kinds) > 1:
        known = {one.__name__: one for one in kinds}
        name = values.pop("name", None if part == "optimizer" else kind.__name__)
        if name not in known:
            raise InvalidParameter(part, name, f"be {' or '.join(known)} for {construction.name}")
        kind = known[name]
    make = getattr(kind, "from_config", None)
    return kind(**_as_declared(kind, values)) if make is None else make(values)


def _as_declared(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Files know no tuples: a list for a field that is declared as one becomes one."""
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError):  # names that the module does not have while it runs
        return dict(values)
    tuples = {name for name, hint in hints.items() if tuple in (hint, get_origin(hint))}
    return {
        name: tuple(value) if name in tuples and isinstance(value, list) else value
        for name, value in values.items()
    }


def _an(part: str) -> str:
    return "an optimizer" if part == "optimizer" else f"a {part}"


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first name under which two configs do not hold the same."""
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return names[0] if names else ""


def _not_passed(one: object, other: object) -> str:
    """The first field that the class sets itself (init=False) and that two objects do not share."""
    ours = fields(other) if is_dataclass(other) else ()
    names = [f.name for f in ours if not f.init]
    return next((n for n in names if repr(getattr(one, n, None)) != repr(getattr(other, n))), "")


def _not_plain(config: Mapping[str, Any]) -> tuple[str, Any]:
    """(where, what) of the first value that JSON cannot hold."""
    for part in ("problem", "optimizer", "options"):
        for name, value in config[part].items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                return f"{part}.{name}", value
    return "config", dict(config)


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
    return {f.name: getattr(value, f.name) for f in fields(value) if f.init}


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
