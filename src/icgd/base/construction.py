"""What a construction is: one description that every part of the package asks.

Compilers, files, verification, traces, costs, reports and the command line know no construction by name: they
ask the descriptions registered here. A description names its heavy parts ("package.module:name") and loads
them when they are used, so that help texts and reports need no PyTorch; one from outside passes them itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from icgd.errors import FaultyPlugin, IcgdError, InvalidParameter


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
    judged_by   further keywords of `icgd.verify` that its verifier takes, besides rounds and starts
    data        what its programs are run with; None: as much as the program itself asks for
    walk *      (program, X, Y, init) -> exact values beside a trace
    cost *      (network, request) -> MethodCost, for `icgd cost`
    card *      Program -> CardText: what a model card says of it, where problem and optimizer do not do
    parts       modules, or "module:name", whose docstrings name the statements it rests on
    switches    options of compile that `icgd run` has for it, to write a command that repeats a run
    settings    options of `icgd run` it takes beside those in its options and its rounds: "activation", "box"
    executors   ways to evaluate its layers
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
    judged_by: tuple[str, ...] = ()
    data: tuple[str, ...] | None = ("X", "Y")
    walk: Any = None
    cost: Any = None
    card: Any = None
    parts: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    executors: tuple[str, ...] = ("structured", "dense")
    call: tuple[str, ...] = ()
    compiles: bool = True

    def __deepcopy__(self, memo: object) -> Construction:
        return self  # programs are copied, what they are is not

    @property
    def is_own(self) -> bool:
        """Whether the package itself has it."""
        return any(self is own for own in _own())

    def load(self, part: str) -> Any:
        """A part as the object it names; None where there is none."""
        return self._loaded(part, getattr(self, part))

    def apply(self, part: str, *given: Any, **named: Any) -> Any:
        """Call a part. What goes wrong inside a part from outside is said of that part."""
        function = self.load(part)
        try:
            return function(*given, **named)
        except (IcgdError, MemoryError):
            raise
        except Exception as error:
            if self.is_own:
                raise
            raise FaultyPlugin(
                f"`{part}` of the construction {self.name!r} raised {type(error).__name__}: {error}"
            ) from error

    def types(self, part: Literal["problem", "optimizer"]) -> tuple[type, ...]:
        """The classes of problems or optimizers it takes."""
        kinds = tuple(self._loaded(part, one) for one in _several(getattr(self, part)))
        for kind in kinds:
            if not isinstance(kind, type):
                raise FaultyPlugin(
                    f"`{part}` of the construction {self.name!r} names {kind!r}, which is no class."
                )
        return kinds

    def option_names(self) -> tuple[str, ...]:
        """What `icgd.compile` may be told of it by name."""
        kind = self.load("options")
        if kind is None:
            return ()
        if not (isinstance(kind, type) and is_dataclass(kind)):
            raise FaultyPlugin(
                f"`options` of the construction {self.name!r} names {kind!r}, which is no dataclass."
            )
        return tuple(one.name for one in fields(kind))

    def takes(self, problem: object) -> bool:
        """Whether `icgd.compile` may hand it this problem."""
        return self.compiles and isinstance(problem, self.types("problem"))

    def _loaded(self, part: str, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        module, _, name = value.partition(":")
        try:
            target: Any = importlib.import_module(module)
            for attribute in name.split("."):
                target = getattr(target, attribute)
        except Exception as error:
            if self.is_own:
                raise
            raise FaultyPlugin(
                f"`{part}` of the construction {self.name!r}, {value!r}, cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        return target


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


_OUTSIDE: dict[str, Construction] = {}


def _own() -> tuple[Construction, ...]:
    """The constructions of the package, which come first and whose names are taken."""
    own: tuple[Construction, ...] = importlib.import_module("icgd.mechanisms.catalogue").OWN
    return own


def registered() -> dict[str, Construction]:
    """Constructions by name: the package's own, then those registered so far."""
    return {**{own.name: own for own in _own()}, **_OUTSIDE}


def register(construction: Construction) -> Construction:
    """Make a construction known to compile, verify, record_trace, cost, saved files and the command line.

    `icgd.compile` picks by the types of problem and optimizer; where two constructions take the same types, by
    `method`, `when` or the class of options. One that nothing tells from another is refused. Registering a name
    again replaces what had it. Gives back the construction.

    >>> from icgd.base.construction import constructions
    >>> register(constructions()["looped_newton"]).name
    'looped_newton'
    """
    if not isinstance(construction, Construction):
        raise InvalidParameter(
            "construction", type(construction).__name__, "be an icgd.Construction"
        )
    if construction.is_own:
        return construction
    _check_description(construction)
    others = [c for c in registered().values() if c.name != construction.name]
    if any(own.name == construction.name for own in _own()):
        raise InvalidParameter(
            "name",
            construction.name,
            "be new: the package has a construction of that name",
            remedy="Rename it.",
        )
    holder = next((c.name for c in others if c.method and c.method == construction.method), None)
    if holder is not None:
        raise InvalidParameter(
            "method", construction.method, f"be new: the construction {holder!r} has that method"
        )
    refuse_ambiguous(construction, others)
    _OUTSIDE[construction.name] = construction
    return construction


def _check_description(construction: Construction) -> None:
    """What can be seen to be wrong without loading anything."""
    for part in ("name", "method"):
        text = getattr(construction, part)
        if not (text is None and part == "method") and not (
            isinstance(text, str) and text.isidentifier()
        ):
            where = "stored in files" if part == "name" else "a word of the command line"
            raise InvalidParameter(part, text, f"be a Python identifier, as it is {where}")
    for part in ("problem", "optimizer"):
        value = getattr(construction, part)
        kinds = _several(value)
        if not kinds or not all(isinstance(kind, (type, str)) for kind in kinds):
            raise InvalidParameter(part, value, "be a class, or a tuple of classes")
    if not (callable(construction.build) or isinstance(construction.build, str)):
        raise InvalidParameter("build", construction.build, "be a function of an icgd.Blueprint")
    for part, right, must in (
        ("options", _is_dataclass_or_text, "be a dataclass, the class itself"),
        ("when", _is_keywords, "be a dict of keywords of icgd.compile and their values"),
        ("rounds", ("steps", "epochs").__contains__, "be 'steps' or 'epochs'"),
        *((part, _is_callable_or_text, "be a function or a class") for part in CALLED),
        *((part, _is_texts, "be a tuple of texts") for part in LISTED),
        *((part, _is_text, "be a text") for part in WORDS),
    ):
        value = getattr(construction, part)
        if not right(value):
            raise InvalidParameter(part, value, must)


CALLED = ("choose", "schema", "size", "exact", "verifier", "walk", "cost")
LISTED = ("parts", "switches", "settings", "executors", "call")
WORDS = ("label", "lead", "noun", "title", "summary", "statement")
"""Parts of a description that are functions, several texts, and one text."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_text, value))


def _is_callable_or_text(value: object) -> bool:
    return value is None or callable(value) or isinstance(value, str)


def _is_dataclass_or_text(value: object) -> bool:
    return (
        value is None or isinstance(value, str) or (isinstance(value, type) and is_dataclass(value))
    )


def _is_keywords(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


def refuse_ambiguous(construction: Construction, others: Iterable[Construction]) -> None:
    """Refuse a construction that takes what an earlier one takes if `icgd.compile` could never pick it."""
    for other in others:
        if not (construction.compiles and other.compiles):
            continue
        shared = [_shared(construction, other, part) for part in ("problem", "optimizer")]
        if None in shared or _told_apart(construction, other):
            continue
        raise InvalidParameter(
            "construction",
            construction.name,
            f"differ from {other.name!r}, which takes {shared[0]} with {shared[1]} too",
            remedy="Give it a `method`, a `when` or a class of `options` that the other does not have.",
        )


def _told_apart(later: Construction, earlier: Construction) -> bool:
    """Whether a call of `icgd.compile` can mean the later one; methods are unique."""
    options = _seen(later.options)
    return (
        later.method is not None
        or dict(later.when) != dict(earlier.when)
        or (options is not None and options != _seen(earlier.options))
    )


def _shared(one: Construction, other: Construction, part: str) -> str | None:
    """The name of a class that both take, as far as classes are loaded; None where there is none."""
    for mine in map(_seen, _several(getattr(one, part))):
        for theirs in map(_seen, _several(getattr(other, part))):
            if mine == theirs or (
                isinstance(mine, type)
                and isinstance(theirs, type)
                and (issubclass(mine, theirs) or issubclass(theirs, mine))
            ):
                return mine.__name__ if isinstance(mine, type) else str(mine).rpartition(":")[2]
    return None


def _seen(value: Any) -> Any:
    """What a part names, if that is loaded already; descriptions are compared without importing anything."""
    if not isinstance(value, str):
        return value
    module, _, name = value.partition(":")
    target: Any = sys.modules.get(module)
    for attribute in name.split("."):
        target = getattr(target, attribute, None)
    return value if target is None else target


def unregister(name: str) -> None:
    """Forget a construction from outside."""
    _OUTSIDE.pop(name, None)


def constructions() -> dict[str, Construction]:
    """Every construction by its name: the package's own, installed plug-ins, and what was registered since."""
    from icgd.base.plugins import load_installed  # which registers, and so needs this module

    load_installed()
    return registered()


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


def each_of(part: str) -> Iterator[tuple[str, Any]]:
    """(name, that part of it) for every construction that has it, loaded."""
    for name, known in constructions().items():
        if getattr(known, part) is not None:
            yield name, known.load(part)
