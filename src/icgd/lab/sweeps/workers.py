"""Where cells of a sweep run: on this machine (joblib) or on a cluster (Ray). One small contract.

An executor calls a function on every item and yields results as they come, in any order. Items are
independent and write their own results, so nothing is lost when a worker dies.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from icgd.errors import AssumptionViolated, InvalidParameter

Item = TypeVar("Item")
Result = TypeVar("Result")
ATTEMPTS = 3
"""How often a cell is tried whose worker died."""


class Executor(Protocol):
    """Runs independent pieces of work."""

    def run(
        self, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> Iterator[tuple[Any, Any]]:
        """(item, result) in the order in which they are done; an exception comes as the result."""


class Joblib:
    """Processes of this machine."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(
        self, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> Iterator[tuple[Any, Any]]:
        """See Executor."""
        from joblib import Parallel, delayed
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left, attempts = list(items), 0
        while left:
            parallel = Parallel(n_jobs=self.workers, return_as="generator_unordered", batch_size=1)
            done = []
            try:
                for index, result in parallel(
                    delayed(_numbered)(function, i, item) for i, item in enumerate(left)
                ):
                    done.append(index)
                    yield left[index], result
            except TerminatedWorkerError as died:
                attempts += 1
                if attempts >= ATTEMPTS:
                    raise AssumptionViolated(
                        f"A worker died {attempts} times ({died}). Use fewer --workers: memory may be short."
                    ) from died
            left = [item for i, item in enumerate(left) if i not in set(done)]


class Ray:
    """Tasks on a Ray cluster: the one RAY_ADDRESS names, or one started on this machine."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(
        self, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> Iterator[tuple[Any, Any]]:
        """See Executor."""
        try:
            import ray
        except ImportError:
            raise InvalidParameter(
                "--executor",
                "ray",
                "be installed",
                remedy="pip install 'icgd[ray]', or use joblib.",
            ) from None
        started = not ray.is_initialized()
        if started:
            here: dict[str, Any] = {"num_cpus": self.workers, "include_dashboard": False}
            here = {} if os.environ.get("RAY_ADDRESS") else here
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **here)
        try:
            task = ray.remote(max_retries=ATTEMPTS - 1, retry_exceptions=False)(_guarded)
            waiting = {task.remote(function, item): item for item in items}
            while waiting:
                (ready,), _ = ray.wait(list(waiting), num_returns=1)
                item = waiting.pop(ready)
                try:
                    yield item, ray.get(ready)
                except ray.exceptions.RayError as error:
                    yield item, error
        finally:
            if started:
                ray.shutdown()


EXECUTORS: dict[str, Callable[[int], Executor]] = {"joblib": Joblib, "ray": Ray}


def make_executor(name: str, workers: int) -> Executor:
    """The executor of this name."""
    if name not in EXECUTORS:
        raise InvalidParameter("--executor", name, f"be one of {', '.join(EXECUTORS)}")
    if workers < 1:
        raise InvalidParameter("--workers", workers, "be an integer >= 1")
    return EXECUTORS[name](workers)


def _guarded(function: Callable[[Any], Any], item: Any) -> Any:
    """An exception is a result: one bad cell must not stop the others."""
    try:
        return function(item)
    except Exception as error:  # reported with its cell
        return error


def _numbered(function: Callable[[Any], Any], index: int, item: Any) -> tuple[int, Any]:
    return index, _guarded(function, item)
