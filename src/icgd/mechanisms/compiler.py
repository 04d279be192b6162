"""icgd.compile: (problem, optimizer) -> Program."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, cast

import torch

from icgd.base.construction import Construction, constructions, methods, refuse_ambiguous
from icgd.base.plugins import PluginWarning
from icgd.errors import FaultyPlugin, InvalidParameter
from icgd.problems import (
    GD,
    SGD,
    Autoregression,
    LinearModel,
    MLPChain,
    Network,
    Newton,
    PreconditionedGD,
    RepresentationRegression,
)
from icgd.problems.foreign_optimizers import no_optimizer, refuse_unknown
from icgd.transformer.program import Blueprint
from icgd.transformer.program.blueprint import DTYPES

Problem = Network | LinearModel | RepresentationRegression | Autoregression | MLPChain
Optimizer = SGD | GD | Newton | PreconditionedGD
SAYS_NOTHING = {"temperature": "spectral", "causal": False}
"""Keywords with the values they had when they were not given, in the one signature there was before: they still
say nothing, whatever is compiled. None says nothing for every option."""


def compile(
    problem: Problem | Any,
    optimizer: Optimizer | Any = None,
    options: Any = None,
    *,
    method: str | None = None,
    dtype: torch.dtype = torch.float64,
    **keywords: Any,
) -> Any:
    """Compile a problem and an optimizer into a frozen transformer with explicit weights.

    Three forms become programs of the machine (`icgd.MachineOptions`): a PyTorch model with its optimizer,
    `icgd.compile(model, optimizer, loss=..., example=(X[:8], y[:8]))`; a step that was traced,
    `icgd.compile(icgd.trace(step, ...))`; a function of tensors, `icgd.compile(function, example=(a, b))`.
    Everything else:

    problem    a Network with SGD or GD; a linear model (GLM, Ridge, Lasso, LinearModel) with GD; a regression
               that loops (LinearRegression, RepresentationRegression, Autoregression, MLPChain); or whatever a
               registered construction takes
    options    what its construction may be told:
                   icgd.CotOptions              networks, method="cot": one layer and a chain of thought (SGD)
                   icgd.BackwardStackOptions    networks, method="stack": 2N+4 layers a step (GD)
                   icgd.ForwardModeOptions      networks, method="forward_mode": N layers a step (GD)
                   icgd.LinearModelOptions      linear models
                   icgd.ProductOptions          loops
                   icgd.DecoderOptions          LinearRegression in a decoder, whose tokens look back only
                   icgd.LinearAttentionOptions  LinearRegression by linear attention that appends a token a step
    keywords   the same options by name, instead of an object: n_grid=64, radius=8.0. `causal=True` asks for the
               decoder, `attention="linear"` for linear attention
    method     for networks: "cot" for SGD and "stack" for GD unless given
    The weights depend on nothing else: not on data, not on initial weights.

    >>> import icgd
    >>> icgd.compile(icgd.Network((2, 3, 1)), icgd.SGD(lr=0.1)).certificate.sup_error < 1e-10
    True
    >>> options = icgd.BackwardStackOptions(n_relu=64)
    >>> icgd.compile(icgd.Network((2, 3, 1), "tanh"), icgd.GD(lr=0.1), options).step.n_layers
    8
    >>> icgd.compile(icgd.Lasso(3, lam=0.1), icgd.GD(lr=0.5)).certificate.sup_error < 1e-10
    True
    """
    if _is_for_the_machine(problem, optimizer):
        from icgd.mechanisms.machine.compile import compile_machine  # torch.fx: not for the others

        if method is not None or options is not None:
            name = "options" if method is None else "method"
            raise InvalidParameter(name, options or method, "be left out for the machine")
        return compile_machine(problem, cast("Any", optimizer), **keywords)
    if optimizer is None:
        raise InvalidParameter("optimizer", None, "be given, for example icgd.SGD(lr=0.1)")
    candidates = _candidates(problem, optimizer, method)
    if dtype not in DTYPES.values():
        raise InvalidParameter("dtype", dtype, "be torch.float64 or torch.float32")
    given = _given(keywords)
    chosen = _chosen(candidates, problem, optimizer, options, given)
    chosen_options = _options(chosen, problem, options, given)
    if chosen.choose is None or not chosen.is_own:  # the package's own say more
        _check_optimizer(chosen, optimizer)
    if chosen.choose is not None:
        blueprint = chosen.apply("choose", problem, optimizer, chosen_options, dtype)
        if not isinstance(blueprint, Blueprint) or blueprint.construction is not chosen:
            other = f" of {blueprint.construction.name}" if isinstance(blueprint, Blueprint) else ""
            raise FaultyPlugin(
                f"`choose` of the construction {chosen.name!r} must give its icgd.Blueprint. "
                f"Got {type(blueprint).__name__}{other}."
            )
    else:
        blueprint = Blueprint(chosen, problem, optimizer, _named(chosen_options), dtype)
    blueprint.check()
    return blueprint.build()


def _is_for_the_machine(problem: object, optimizer: object) -> bool:
    """A module, a function, or a step that was traced; with no optimizer of the package's own."""
    if any(
        isinstance(optimizer, c.types("optimizer")) for c in constructions().values() if _loads(c)
    ):
        return False
    known = any(c.compiles and _loads(c) and c.takes(problem) for c in constructions().values())
    return (
        not known
        and not isinstance(problem, type)
        and (callable(problem) or hasattr(problem, "tapes"))
    )


def _given(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords that say something; an unknown one is a mistake whatever its value."""
    known = set(_every_option())
    for name, value in keywords.items():
        if name not in known:
            refuse_unknown("icgd.compile", {name: value})
    return {name: value for name, value in keywords.items() if value is not None}


def _check_optimizer(chosen: Construction, optimizer: object) -> None:
    kinds = chosen.types("optimizer")
    if not isinstance(optimizer, kinds):
        raise InvalidParameter(
            "optimizer",
            type(optimizer).__name__,
            f"be {' or '.join(kind.__name__ for kind in kinds)} for {chosen.name}",
        )


def _candidates(problem: object, optimizer: object, method: str | None) -> list[Construction]:
    """Constructions for this kind of problem."""
    every = [c for c in constructions().values() if c.compiles and _loads(c)]
    suited = [c for c in every if c.takes(problem)]
    if not suited:
        raise InvalidParameter(
            "problem",
            type(problem).__name__,
            "be an icgd.Network, a linear model (icgd.GLM, ...) or a regression (icgd.LinearRegression, ...)",
            remedy="A compiler sees widths and kinds, no weights: icgd.Network((10, 16, 1), 'relu')."
            if isinstance(problem, torch.nn.Module)
            else "",
        )
    if not isinstance(optimizer, tuple(kind for c in every for kind in c.types("optimizer"))):
        raise no_optimizer(optimizer)
    if method is None:
        return suited
    if method not in methods():
        raise InvalidParameter("method", method, f"be one of {', '.join(methods())}")
    by_method = [c for c in suited if c.method == method]
    if not by_method:
        kind = type(problem).__name__
        noun = "a linear model" if isinstance(problem, LinearModel) else kind
        those = [c.method for c in suited if c.method is not None]
        must = f"be one of {', '.join(those)}" if those else "be left out"
        raise InvalidParameter("method", method, f"{must} for {noun}")
    return by_method


def _loads(construction: Construction) -> bool:
    """Whether the classes it names can be loaded; a plug-in whose classes cannot be does no harm to others."""
    try:
        construction.types("problem"), construction.types("optimizer"), construction.option_names()
    except FaultyPlugin as fault:
        warnings.warn(f"{fault} It is left out.", PluginWarning, stacklevel=4)
        return False
    return True


def _chosen(
    candidates: list[Construction],
    problem: object,
    optimizer: object,
    options: object,
    keywords: Mapping[str, object],
) -> Construction:
    """The construction that is meant: by its options, by what a keyword asks for, by the optimizer."""
    if options is not None:
        suited = [c for c in candidates if type(options) is c.load("options")]
        if not suited:
            known = dict.fromkeys(_shown(c.load("options")) for c in candidates)
            raise InvalidParameter(
                "options",
                type(options).__name__,
                f"be {' or '.join(known)} for {type(problem).__name__}",
                remedy="Options by name work too: icgd.compile(problem, optimizer, n_grid=64).",
            )
    else:
        asked_for = [
            c
            for c in candidates
            if c.when and all(keywords.get(name) == value for name, value in c.when.items())
        ]
        asked_for.sort(key=lambda c: -len(c.when))  # the one that asks for more is meant
        suited = asked_for or [c for c in candidates if not c.when] or candidates
    fitting = [c for c in suited if isinstance(optimizer, c.types("optimizer"))]
    for place, later in enumerate(fitting):  # classes named by texts are only known now
        if not later.is_own:
            refuse_ambiguous(later, fitting[:place])
    return (fitting or suited)[0]  # one that does not take this optimizer says which it takes


def _options(
    chosen: Construction,
    problem: object,
    options: object,
    keywords: Mapping[str, Any],
) -> Any:
    """The options object, made of keywords unless given; a name that would be ignored is a mistake."""
    kind = chosen.load("options")
    known = {} if kind is None else {field.name: str(field.type) for field in fields(kind)}
    named = {
        name: value
        for name, value in keywords.items()
        if name not in chosen.when and (name in known or not _says_nothing(name, value))
    }
    for name, value in named.items():
        if name not in known:
            noun = _noun(chosen, problem)
            raise InvalidParameter(name, value, f"be left out for {noun}")
    if options is None:
        named = {
            name: _number(name, value) if known[name].startswith("float") else value
            for name, value in named.items()
        }
        return None if kind is None else kind(**named)
    if named:
        raise InvalidParameter(
            next(iter(named)),
            next(iter(named.values())),
            "be left out: options were given as an object",
        )
    return options


def _says_nothing(name: str, value: object) -> bool:
    asks = any(name in c.when for c in constructions().values())
    return (value is False and asks) or (name in SAYS_NOTHING and SAYS_NOTHING[name] == value)


def _every_option() -> Iterator[str]:
    for c in constructions().values():
        with suppress(FaultyPlugin):  # which _candidates has named, and left out
            yield from (*c.when, *c.option_names())


def _noun(chosen: Construction, problem: object) -> str:
    """What was compiled, in a sentence about an option that it does not have."""
    if chosen.method is not None:
        return (
            "a network with " if chosen.rounds == "epochs" else ""
        ) + f"method={chosen.method!r}"
    if isinstance(problem, LinearModel):
        return "a linear model"
    extra = " with linear attention" if chosen.when.get("attention") else ""
    return f"{type(problem).__name__}{extra}"


def _named(options: Any) -> dict[str, Any]:
    return {} if options is None else {f.name: getattr(options, f.name) for f in fields(options)}


def _shown(kind: Any) -> str:
    return "left out" if kind is None else f"icgd.{kind.__name__}"


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidParameter(name, value, "be a number")
    try:
        return float(value)
    except OverflowError:
        raise InvalidParameter(name, value, "be a finite number") from None
