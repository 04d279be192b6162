"""What a construction is: one description that every part of the package asks.

Compilers, files, verification, traces, costs, reports and the command line know no construction by name: they
ask the descriptions registered here. A description names its heavy parts ("package.module:name") and loads
them when they are used, so that help texts and reports need no PyTorch; one from outside passes them itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from icgd.errors import InvalidParameter

PLUGINS = "icgd.constructions"
"""The group of entry points whose modules register constructions when the package is first asked for them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Construction:
    """A way to compile (problem, optimizer) into a frozen transformer, and all that is known of it.

    Parts marked * may be given as "package.module:name".

    name        stored in files; unique
    problem *   the class of problems it compiles, or several
    optimizer * the class of optimizers, or several
    build *     Blueprint -> Program: the frozen weights, from choices that are all made
    choose *    (problem, optimizer, options, dtype) -> Blueprint: checks and defaults; without it options are
                taken as they are
    options *   dataclass of what `icgd.compile` may be told; each field None where the construction chooses
    method      its name in `icgd.compile(method=...)` and on the command line, where there is a choice
    when        keywords of `icgd.compile` that ask for this construction, with their values
    label       its name for people: "chain of thought"
    lead        what happens in a run, the first sentence of a report
    noun        what its programs are called in messages: "a linear model"
    title       what a trace says it does, before the problem: "a frozen layer in a loop solves"
    summary     the same for the model card, in a few words
    statement   the statement it comes from
    rounds      how runs are counted: "steps", or "epochs" of the data
    starts      whether `run` takes initial weights
    schema *    pydantic model of a saved config; unless given only its outline is checked
    size *      config -> parts that take memory and time, asked before anything is built
    exact *     (program, X, Y, queries, steps) -> icgd.Exact: the exact algorithm with its bounds, which the
                general verifier and traces use
    verifier *  (program, X, Y, ...) -> Verdict, where the general one does not do
    walk *      (program, X, Y, init) -> exact values beside a trace
    cost *      (network, request) -> MethodCost, for `icgd cost`
    parts       modules, or "module:name", whose docstrings name the statements it rests on
    switches    options of compile that `icgd run` has for it, to write a command that repeats a run
    call        how a program is run, for the model card; X, Y and rounds unless given
    compiles    whether `icgd.compile` makes its programs
    """

    name: str
    problem: Any
    optimizer: Any
    build: Any
    choose: Any = None
    options: Any = None
    method: str | None = None
    when: Mapping[str, object] = field(default_factory=dict)
    label: str = ""
    lead: str = ""
    noun: str = "this construction"
    title: str = "a frozen layer in a loop solves"
    summary: str = "a construction registered from outside"
    statement: str = ""
    rounds: Literal["steps", "epochs"] = "steps"
    starts: bool = False
    schema: Any = None
    size: Any = None
    exact: Any = None
    verifier: Any = None
    walk: Any = None
    cost: Any = None
    parts: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    call: tuple[str, ...] = ()
    compiles: bool = True

    def __deepcopy__(self, memo: object) -> Construction:
        return self  # programs are copied, what they are is not

    def load(self, part: str) -> Any:
        """A part as the object it names; None where there is none."""
        return _loaded(getattr(self, part))

    def types(self, part: Literal["problem", "optimizer"]) -> tuple[type, ...]:
        """The classes of problems or optimizers it takes."""
        value = getattr(self, part)
        return tuple(_loaded(one) for one in (value if isinstance(value, tuple) else (value,)))


def _loaded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    module, _, name = value.partition(":")
    target: Any = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    return target


_REGISTERED: dict[str, Construction] = {}
_ASKED: list[str] = []
"""Holds an entry once the constructions of installed packages have been looked for."""


def register(construction: Construction) -> Construction:
    """Make a construction known to compile, verify, record_trace, cost, saved files and the command line.

    `icgd.compile` picks by the types of problem and optimizer; where two constructions take the same types, by
    `method`, `when` or the class of options. Gives back the construction.

    >>> from icgd.base.construction import constructions
    >>> register(constructions()["looped_newton"]).name
    'looped_newton'
    """
    if not isinstance(construction, Construction):
        raise InvalidParameter(
            "construction", type(construction).__name__, "be an icgd.Construction"
        )
    name = construction.name
    if not name.isidentifier():
        raise InvalidParameter("name", name, "be a Python identifier, as it is stored in files")
    known = _REGISTERED.get(name)
    if known is not None and known is not construction and _is_own(known):
        raise InvalidParameter(
            "name", name, "be new: the package has a construction of that name", remedy="Rename it."
        )
    _REGISTERED[name] = construction
    return construction


def _is_own(construction: Construction) -> bool:
    return isinstance(construction.build, str) and construction.build.startswith("icgd.")


def unregister(name: str) -> None:
    """Forget a construction from outside."""
    _REGISTERED.pop(name, None)


def constructions() -> dict[str, Construction]:
    """Every construction by its name: the package's own, installed plug-ins, and what was registered since."""
    importlib.import_module("icgd.mechanisms.catalogue")
    if not _ASKED:
        _ASKED.append(PLUGINS)
        for target in entry_points(group=PLUGINS):
            target.load()
    return dict(_REGISTERED)


def construction(name: str) -> Construction:
    """One construction by its name."""
    known = constructions()
    if name not in known:
        raise InvalidParameter(
            "construction",
            name,
            f"be registered: {', '.join(sorted(known))}",
            remedy="Import the module that calls icgd.register for it.",
        )
    return known[name]


def by_method(method: str | None = None) -> Construction:
    """The construction of that name on the command line; the first one unless named."""
    every = [c for c in constructions().values() if c.method is not None]
    return next((c for c in every if c.method == method), every[0])


def methods() -> tuple[str, ...]:
    """Names that constructions have on the command line, in their order."""
    return tuple(c.method for c in constructions().values() if c.method is not None)


def load_plugin(name: str) -> None:
    """Import a module, or a file *.py, that registers constructions."""
    path = Path(name)
    if path.suffix != ".py":
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise InvalidParameter(
                "--plugin",
                name,
                "be a module that can be imported, or a file *.py",
                remedy=f"Python says: {error}.",
            ) from None
        return
    if not path.is_file():
        raise InvalidParameter("--plugin", name, "be a file that exists")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


def each_of(part: str) -> Iterator[tuple[str, Any]]:
    """(name, that part of it) for every construction that has it, loaded."""
    for name, known in constructions().items():
        if getattr(known, part) is not None:
            yield name, known.load(part)
