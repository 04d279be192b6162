"""Recipes: functions of the user's own that return model, loss and optimizer, called with every doubt."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from icgd.base.plugins import import_file, reason
from icgd.errors import InvalidParameter
from icgd.mechanisms.machine.compile import Traced
from icgd.mechanisms.machine.programs.source import Source

FORM = "FILE.py:FUNCTION, or MODULE:FUNCTION"
RETURNS = "Return (model, loss, optimizer), a dict with these keys, or what icgd.trace gives."


@dataclass(frozen=True)
class Recipe:
    """What a recipe returned; or the step it traced, with the same objects as far as it has them."""

    reference: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[..., Any] | None
    traced: Traced | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The precision of its parameters."""
        return next(p.dtype for p in self.model.parameters())


def load_recipe(reference: str) -> Recipe:
    """Call the function that FILE.py:FUNCTION names."""
    function = _function(reference)
    try:
        given = function()
    except (Exception, SystemExit) as error:
        raise InvalidParameter(
            "RECIPE",
            reference,
            "be a function without arguments that can be called",
            remedy=f"It raised {reason(error)}.",
        ) from error
    recipe = _recipe(reference, given)
    _check_precision(recipe)
    return recipe


def _function(reference: str) -> Callable[[], Any]:
    place, colon, name = reference.rpartition(":")
    if not (colon and place and name.isidentifier()):
        raise InvalidParameter("RECIPE", reference, f"be {FORM}", remedy="recipe.py:build, say.")
    module = _module(reference, place)
    function = getattr(module, name, None)
    if not callable(function):
        functions = [
            n for n, v in vars(module).items() if inspect.isfunction(v) and not n.startswith("_")
        ]
        known = f"It has {', '.join(functions[:12])}." if functions else "It has no functions."
        raise InvalidParameter("RECIPE", reference, f"name a function of {place}", remedy=known)
    needed = [
        p.name
        for p in _parameters(function)
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise InvalidParameter(
            "RECIPE",
            reference,
            "be a function without arguments",
            remedy=f"It needs {', '.join(needed)}; give them defaults.",
        )
    return function


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _module(reference: str, place: str) -> ModuleType:
    path = Path(place)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise InvalidParameter("RECIPE", reference, f"name a file that exists; {place} does not")
    try:
        if is_file:
            return import_file(path)
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
        return importlib.import_module(place)
    except (Exception, SystemExit) as error:
        raise InvalidParameter(
            "RECIPE",
            reference,
            f"be {FORM}, that can be imported",
            remedy=f"Python says: {reason(error)}.",
        ) from error


def _recipe(reference: str, given: Any) -> Recipe:
    if isinstance(given, Traced):
        source = given.source
        if not isinstance(source, Source) or source.optimizer is None:
            raise InvalidParameter(
                "RECIPE",
                reference,
                "give a step that trains a model with an optimizer",
                remedy="Functions of tensors are compiled in Python: icgd.compile(function, example=...).",
            )
        return Recipe(reference, source.model, source.optimizer, None, given)
    names = ("model", "loss", "optimizer")
    if isinstance(given, Mapping) and set(given) == set(names):
        given = tuple(given[name] for name in names)
    if not isinstance(given, (tuple, list)) or len(given) != len(names):
        raise InvalidParameter(
            "RECIPE", reference, f"return what can be compiled, not {_shown(given)}", remedy=RETURNS
        )
    model, loss, optimizer = given
    for name, value, fits in (
        ("a torch.nn.Module", model, isinstance(model, nn.Module)),
        ("a loss, a function of (prediction, target),", loss, callable(loss)),
        ("a torch.optim.Optimizer", optimizer, isinstance(optimizer, torch.optim.Optimizer)),
    ):
        if not fits:
            raise InvalidParameter(
                "RECIPE",
                reference,
                f"return {name} in its place, not {_shown(value)}",
                remedy=RETURNS,
            )
    return Recipe(reference, model, optimizer, loss)


def _check_precision(recipe: Recipe) -> None:
    numbers = [*recipe.model.named_parameters(), *recipe.model.named_buffers()]
    if not any(True for _ in recipe.model.parameters()):
        raise InvalidParameter("RECIPE", recipe.reference, "return a model with parameters")
    for name, value in numbers:
        if value.is_floating_point() and value.dtype != torch.float64:
            raise InvalidParameter(
                "RECIPE",
                recipe.reference,
                f"return a model in float64; {name} is {str(value.dtype).removeprefix('torch.')}",
                remedy="Write model.double() before the optimizer is made.",
            )


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"{len(value)} things ({', '.join(type(v).__name__ for v in value)})"
    if isinstance(value, Mapping):
        return f"a dict with {sorted(map(str, value))}"
    return "nothing" if value is None else type(value).__name__
