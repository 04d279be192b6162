"""Parts of a layer by name; a name is also the path of its weights in a saved program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from icgd.errors import InvalidParameter


def named_parts(what: str, parts: Mapping[str, Any]) -> nn.ModuleDict:
    """The parts as modules, or what is wrong with a name: torch keeps them beside its own attributes.

    >>> named_parts("sublayers", {"clear": nn.Identity()})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    icgd.errors.InvalidParameter: `sublayers` must have names that are not empty, ... Got 'clear'. ...
    """
    taken = nn.ModuleDict()
    for name in parts:
        if not isinstance(name, str) or not name or "." in name or hasattr(taken, name):
            raise InvalidParameter(
                what,
                name,
                "have names that are not empty, hold no dot and are no attribute of torch.nn.ModuleDict",
                remedy="Rename the part, for example 'erase' instead of 'clear'.",
            )
    return nn.ModuleDict(dict(parts))
