"""What an experiment will cost, from a few steps of each kind of its work."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from icgd.lab.models.build import build_model
from icgd.lab.sweeps.cells import Cell, Workplace
from icgd.lab.tasks import build_task
from icgd.lab.training.config import Config
from icgd.lab.training.flops import flop_counter
from icgd.lab.training.trainer import make_optimizer, sample_step

TIMED = 2
"""Steps that are timed of every kind of work, after one that is not."""
STANDS_OUT = 1.5
"""How many times as long as with one step some more must take, for a step to be told from the rest."""
LONG = 10.0
"""Seconds after which no longer trial is made."""
ENOUGH_TO_TIME = 2e10
"""Operations of a step that say how fast the machine is: about a second of one core."""


@dataclass(frozen=True)
class Estimate:
    """Pieces of work, their steps and floating-point operations, and their time on this machine.

    trainings  pieces that are trainings, or work as long
    seconds    of all of them on so many workers; what is measured afterwards is not in it
    """

    trainings: int
    steps: int
    flops: float
    seconds: float
    workers: int

    def __str__(self) -> str:
        return (
            f"{self.trainings} trainings, {self.steps:,} steps, {self.flops:.1e} floating-point operations: "
            f"about {duration(self.seconds)} on this machine with {self.workers} workers"
        )


@dataclass(frozen=True)
class _Cost:
    """What a piece of work costs before its first step, and each unit of it: a step, or a part of one."""

    flops: float
    seconds: float
    flops_per_unit: float
    seconds_per_unit: float


def estimate(cells: Sequence[Cell], workers: int, device: str = "cpu") -> Estimate:
    """Time a few steps of every kind of work and add up; one at a time, with nothing else running."""
    known: dict[str, _Cost] = {}
    trainings = steps = 0
    flops = seconds = 0.0
    for cell in cells:
        config, count = cell.config, cell.steps
        if count == 0:
            continue
        kind = _kind_of_work(cell) if config is None else _kind_of_training(config)
        if kind not in known:
            known[kind] = (
                _cost_of_work(cell, device) if config is None else _cost_of_training(config, device)
            )
        cost = known[kind]
        trainings, steps = trainings + 1, steps + count
        flops += cost.flops + cost.flops_per_unit * cell.units
        seconds += cost.seconds + cost.seconds_per_unit * cell.units
    busy = max(1, min(workers, trainings))
    return Estimate(trainings, steps, flops, seconds / busy, workers)


def _kind_of_training(config: Config) -> str:
    """What decides the cost of a step: everything but the seed and the number of steps."""
    training = config.training.model_copy(update={"seed": 0, "train_steps": 1})
    return config.model_copy(update={"training": training, "out_dir": "", "name": ""}).to_json()


def _kind_of_work(cell: Cell) -> str:
    fixed = {name: v for name, v in cell.options.items() if name not in ("seed", *cell.effort)}
    return f"{cell.work} {json.dumps(fixed, sort_keys=True)}"


def _cost_of_work(cell: Cell, device: str) -> _Cost:
    """From one step of the work and from some more: the difference is the cost of a step."""
    with TemporaryDirectory() as directory, _threads(1):
        place = Workplace(Path(directory), device=device, only_cost=True)

        def do(steps: int) -> float:
            started = time.perf_counter()
            cell.do(place, **dict.fromkeys(cell.effort, 1) | {cell.effort[-1]: steps})
            return time.perf_counter() - started

        def counted(steps: int) -> float:
            with flop_counter() as counter:
                do(steps)
            return float(counter.get_total_flops())

        # Counting slows the work down and loads what it needs: times are taken apart from it.
        one, two = counted(1), counted(2)
        first, more = do(1), 1
        several = do(1 + more)
        while several < min(STANDS_OUT * first, LONG) and more < cell.units:
            more *= 4
            several = do(1 + more)
    flops, seconds = two - one, max(0.0, several - first) / more
    return _Cost(max(0.0, one - flops), max(0.0, first - seconds), flops, seconds)


def _cost_of_training(config: Config, device: str) -> _Cost:
    """Operations are counted for one prompt; a step of a large model is timed with a part of its prompts."""
    batch_size = config.training.batch_size
    with _threads(config.training.threads):
        task = build_task(config.task)
        model = build_model(config.model, task.d_x, task.d_y).to(device)
        optimizer = make_optimizer(config, model)

        def step(number: int, prompts: int) -> None:
            training = config.training.model_copy(update={"batch_size": prompts})
            some = config.model_copy(update={"training": training})
            batch = sample_step(task, some, number).to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = model.loss(batch)
            loss.backward()
            optimizer.step()
            float(loss.detach())  # waits for a GPU

        with flop_counter() as counter:
            step(0, 1)
        per_prompt = float(counter.get_total_flops())
        timed = min(batch_size, max(1, int(ENOUGH_TO_TIME / per_prompt)))
        started = time.perf_counter()
        for number in range(TIMED):
            step(number + 1, timed)
        seconds = (time.perf_counter() - started) / TIMED
        return _Cost(0.0, 0.0, per_prompt * batch_size, seconds * batch_size / timed)


def one_thread() -> AbstractContextManager[None]:
    """As in a worker."""
    return _threads(1)


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many threads, as in a worker; None or 0: as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(42), duration(600), duration(3 * 3600), duration(10 * 86400), duration(0.3)
    ('42 s', '10 min', '3.0 h', '10.0 days', '1 s')
    """
    for unit, name, digits in ((86400.0, "days", 1), (3600.0, "h", 1), (60.0, "min", 0)):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.{digits}f} {name}"
    return f"{max(seconds, math.ceil(min(seconds, 1))):.0f} s"  # what takes time takes a second
