"""icgd.verify: is this program what it claims to be?"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from icgd.base.construction import constructions
from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated, FaultyPlugin, IcgdError, InvalidParameter
from icgd.problems.foreign_optimizers import refuse_unknown
from icgd.transformer.program import Program
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.transformer.runtime.recording.recorder import Recorder
from icgd.verification.loops import verify_loop
from icgd.verification.verdict.observation import Observer, Watched
from icgd.verification.verdict.verdict import Verdict

MISSING: Any = object()
"""What stands where no argument was given."""


def verify(
    program: Program,
    X: Any,
    Y: Any = MISSING,
    *more: Any,
    init: Any = None,
    epochs: int | None = None,
    steps: int | None = None,
    executor: ExecutorName = "structured",
    probe_sets: int = 1,
    seed: int = 0,
    progress: bool | Callable[[int, int], None] = False,
    observe: Observer | None = None,
    recorder: Recorder | None = None,
    **further: Any,
) -> Verdict:
    """Hold a program against an exact optimizer, its certificates and probes; gives a Verdict.

    Statement: [COT] Proposition 4.4

    1. the stored heads must keep the promise of their certificate;
    2. probe blocks of every step type, every slot filled, queries up to the radius, on the structured
       executor and (where it fits) on the literal matrices; loops have none, and are held against the exact
       algorithm on the data and on queries made of it;
    3. a training run, round by round against autograd and torch.optim: `epochs` of SGD for a network,
       `steps` of GD for a stack, `steps` of (proximal) GD for a linear model, whose distance to the true
       minimiser is held against the theorem's bound as well.

    A training step or a function of PyTorch is held against itself, run eagerly from the same numbers: give
    what the step takes (X, y), or the function's arguments. `further`: batch_size, shuffle, schedule, and for a
    program out of a file model, optimizer and loss, or step, or function.

    observe   called with (round, weights, exact weights) after every round; must not keep the tensors
    recorder  records the run that is judged, for the viewer

    Differs from the paper: bounds are kept apart (per round, global, printed).

    >>> import icgd, torch
    >>> net = icgd.Network((2, 3, 1)); program = icgd.compile(net, icgd.SGD(lr=0.1))
    >>> x = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2)
    >>> check = verify(program, x, x[:, :1], init=net.init(seed=0))
    >>> check.passed, check.max_error < 1e-13
    (True, True)
    >>> program = icgd.compile(icgd.Ridge(2, lam=0.1), icgd.GD(lr=0.5))
    >>> check = verify(program, x, x[:, 0], steps=20)
    >>> check.passed, check.max_error < 1e-14
    (True, True)
    """
    construction = program.construction
    refuse_unknown(
        "icgd.verify", {k: v for k, v in further.items() if k not in construction.judged_by}
    )
    check_verifiable(program)
    given = {"init": init, "epochs": epochs, "steps": steps}
    taken = {construction.rounds, *construction.judged_by}
    taken |= {"init"} if construction.starts else set()
    for name, value in given.items():
        if value is not None and name not in taken:
            raise InvalidParameter(
                name,
                value,
                f"be left out for {construction.noun}",
                remedy=f"Use {construction.rounds}=...",
            )
    data = [X, *([] if Y is MISSING else [Y]), *more]
    if construction.data is not None and len(data) != len(construction.data):
        raise InvalidParameter(
            "data", len(data), f"be {' and '.join(construction.data)} for {construction.noun}"
        )
    how: dict[str, Any] = {name: value for name, value in given.items() if name in taken}
    how |= further
    how |= {"executor": executor, "progress": progress}
    how |= {"probe_sets": whole_number("probe_sets", probe_sets, 0), "seed": _seed(seed)}
    how["watched"] = Watched(observe, recorder)
    try:
        if construction.verifier is None:
            return verify_loop(program, *data, **how)
        check = construction.apply("verifier", program, *data, **how)
    except (RuntimeError, LookupError, AssertionError) as error:
        if isinstance(error, IcgdError) or not program._is_altered():
            raise
        raise AssumptionViolated(
            f"This {construction.name} program was altered after compiling and cannot even be run "
            f"({error}): it fails. Compile it again."
        ) from error
    if not isinstance(check, Verdict):
        raise FaultyPlugin(
            f"`verifier` of the construction {construction.name!r} must give an icgd.Verdict. "
            f"Got {type(check).__name__}."
        )
    return check


def _seed(value: object) -> int:
    try:
        seed = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        seed = None
    if seed is None or not -(2**63) <= seed < 2**63:
        raise InvalidParameter("seed", value, "be an integer from -2^63 to 2^63 - 1")
    return seed


def check_verifiable(program: Program) -> None:
    """Refuse a program whose exact algorithm nobody has described."""
    if program.construction.verifier is None and program.construction.exact is None:
        known = [c.name for c in constructions().values() if c.verifier or c.exact]
        raise InvalidParameter(
            "program",
            program.construction.name,
            f"be of a construction with an exact algorithm to be held against: {', '.join(known)}",
            remedy="Run it with record='weights' and compare run.history with the exact algorithm.",
        )
