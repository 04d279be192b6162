"""icgd.record_trace: run a program with an exact optimizer beside it, and keep what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from icgd.errors import InvalidParameter
from icgd.transformer.program import Program
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.transformer.runtime.recording.recorder import Exact, Recorder
from icgd.transformer.trace.format import Trace
from icgd.verification.walks.loop import exact_path


def record_trace(
    program: Program,
    X: Any,
    Y: Any,
    *,
    init: Any = None,
    epochs: int | None = None,
    steps: int | None = None,
    query: Any = None,
    executor: ExecutorName = "structured",
    progress: bool | Callable[[int, int], None] = False,
    **options: Any,
) -> Trace:
    """A trace of a run for the viewer, every block beside the exact optimizer's values.

    options  of icgd.Recorder: budget_mb, heads, which, tokens, rounds; the others are those of `run`

    >>> import icgd, torch
    >>> net = icgd.Network((2, 3, 1)); program = icgd.compile(net, icgd.SGD(lr=0.1))
    >>> x = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2)
    >>> trace = record_trace(program, x, x[:, :1], init=net.init(seed=0))
    >>> trace.n_rounds, len(trace.steps), trace.steps[0].reads
    (4, 16, [0, 1])
    """
    recorder = exact_recorder(program, X, Y, init=init, steps=steps, **options)
    program.run(
        X,
        Y,
        init=init,
        epochs=epochs,
        steps=steps,
        query=query,
        executor=executor,
        record=recorder,
        progress=progress,
    )
    return recorder.trace()


def exact_recorder(
    program: Program, X: Any, Y: Any, *, init: Any = None, steps: int | None = None, **options: Any
) -> Recorder:
    """A recorder that notes the exact optimizer's values beside the program's."""
    if "exact" in options:
        raise InvalidParameter(
            "exact",
            options["exact"],
            "be left out: record_trace brings the exact optimizer",
            remedy="Use program.run(..., record=icgd.Recorder(exact=...)).",
        )
    return Recorder(**options, exact=exact_walk(program, X, Y, init, steps))


def exact_walk(
    program: Program, X: Any, Y: Any, init: Any, steps: int | None = None
) -> Exact | None:
    """The exact optimizer of a program on the first problem of its data; None where there is none."""
    construction = program.construction
    if construction.walk is not None:
        return construction.apply("walk", program, *program.codec.problems(X, Y, init)[0])
    if construction.exact is None or steps is None:
        return None
    return exact_path(steps)(program, *program.codec.problems(X, Y, init)[0])
