"""The errata that a checker of the theorem table declares, read from its source without running it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any


@cache
def _functions(module: ModuleType) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def declared_errata(checker: Callable[[], Any]) -> tuple[str, ...]:
    """What the checker hands to `judge` as `errata=`; it must be written out there, or be left out."""
    module = inspect.getmodule(checker)
    assert module is not None
    node = _functions(module)[inspect.unwrap(checker).__name__]
    given = [
        word.value
        for word in ast.walk(node)
        if isinstance(word, ast.keyword) and word.arg == "errata"
    ]
    assert len(given) <= 1, f"{checker} judges more than once"
    return tuple(ast.literal_eval(given[0])) if given else ()
