"""icgd.verify: is this program what it claims to be?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from icgd.errors import AssumptionViolated, IcgdError, InvalidParameter
from icgd.transformer.program import Program
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.verification.verdict.judgement import Outcome

if TYPE_CHECKING:
    from rich.table import Table


class Verdict(Protocol):
    """What every check can say, whatever was checked.

    max_error        largest distance to the exact optimizer, started at the same point
    max_round_error  largest error of one round from the same state; round_bound bounds it
    global_bound     rigorous bound on the error after the last round
    paper_bound      the bound printed in the paper
    verdict          "passed", "failed" or "inconclusive": within its bounds, but these are so large that a
                     program which does not train would be, too (verification/verdict/judgement.py)
    passed           verdict == "passed"
    """

    max_error: float
    max_round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    verdict: Outcome
    passed: bool
    notes: list[str]

    def table(self) -> Table:
        """The verdict for the terminal."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""


def verify(
    program: Program,
    X: Any,
    Y: Any,
    *,
    init: Any = None,
    epochs: int | None = None,
    steps: int | None = None,
    executor: ExecutorName = "structured",
    probe_sets: int = 1,
    seed: int = 0,
    progress: bool | Callable[[int, int], None] = False,
) -> Any:
    """Hold a program against an exact optimizer, its certificates and probes; gives a Verdict.

    Statement: [COT] Proposition 4.4

    1. the stored heads must keep the promise of their certificate;
    2. probe blocks of every step type, every slot filled, queries up to the radius, on the structured
       executor and (where it fits) on the literal matrices;
    3. a training run, round by round against autograd and torch.optim: `epochs` of SGD for a network,
       `steps` of GD for a stack, `steps` of (proximal) GD for a linear model, whose distance to the true
       minimiser is held against the theorem's bound as well.

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
    common = {
        "executor": executor,
        "probe_sets": probe_sets,
        "seed": seed,
        "progress": progress,
    }
    kind = str(program.config.get("construction"))
    check_construction(kind)
    try:
        return _verify(kind, program, X, Y, init, {"epochs": epochs, "steps": steps}, common)
    except (RuntimeError, LookupError, AssertionError) as error:
        if isinstance(error, IcgdError) or not program._is_altered():
            raise
        raise AssumptionViolated(
            f"This {kind} program was altered after compiling and cannot even be run ({error}): it fails. "
            "Compile it again."
        ) from error


def _verify(
    kind: str,
    program: Program,
    X: Any,
    Y: Any,
    init: Any,
    rounds: dict[str, int | None],
    common: dict[str, Any],
) -> Any:
    """Hand the program to the verifier of its construction."""
    from icgd.verification.cot_linear import verify_statistics
    from icgd.verification.cot_network import verify_network

    epochs, steps = rounds["epochs"], rounds["steps"]
    if kind == "softmax_cot_statistics":
        _refuse("a linear model", "steps", epochs=epochs)
        return verify_statistics(program, X, Y, init=init, steps=steps, **common)
    if kind in ("relu_stack", "forward_mode"):
        from icgd.verification.stacks import verify_stack

        _refuse("full-batch GD", "steps", epochs=epochs)
        return verify_stack(program, X, Y, init=init, steps=steps, **common)
    if kind == "softmax_cot_network":
        _refuse("SGD", "epochs", steps=steps)
        return verify_network(program, X, Y, init=init, epochs=epochs, **common)
    from icgd.verification.loops import verify_loop

    _refuse("a loop", "steps", init=init, epochs=epochs)
    return verify_loop(
        program, X, Y, steps=steps, executor=common["executor"], progress=common["progress"]
    )


def _refuse(what: str, instead: str, **given: Any) -> None:
    """Rounds are counted in epochs or in steps, and loops start at 0."""
    for name, value in given.items():
        if value is not None:
            raise InvalidParameter(
                name, value, f"be left out for {what}", remedy=f"Use {instead}=..."
            )


def check_construction(kind: str) -> None:
    """Refuse a program whose exact algorithm the verifier does not know."""
    from icgd.verification.loop_oracles import EXACT

    known = ("softmax_cot_network", "softmax_cot_statistics", "relu_stack", "forward_mode", *EXACT)
    if kind not in known:
        raise InvalidParameter(
            "program",
            kind,
            f"be of a construction with an exact algorithm to be held against: {', '.join(known)}",
            remedy="Run it with record='weights' and compare run.history with the exact algorithm.",
        )
