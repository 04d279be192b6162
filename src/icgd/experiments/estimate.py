"""What an experiment will cost, from a few steps of each of its trainings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from icgd.experiments.cells import Cell
from icgd.training.config import Config
from icgd.training.flops import flop_counter
from icgd.training.models.build import build_model
from icgd.training.tasks import build_task
from icgd.training.trainer import make_optimizer, sample_step

TIMED = 2
"""Steps that are timed of every kind of training, after one that is not."""


@dataclass(frozen=True)
class Estimate:
    """Trainings, their steps and floating-point operations, and their time on this machine.

    seconds  of all trainings on so many workers; what is measured afterwards is not in it
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


def estimate(cells: Sequence[Cell], workers: int, device: str = "cpu") -> Estimate:
    """Time a few steps of every kind of training and add up; one at a time, with nothing else running."""
    configs = [config for cell in cells if (config := cell.config) is not None]
    known: dict[str, tuple[float, float]] = {}
    flops = seconds = 0.0
    for config in configs:
        kind = _kind(config)
        if kind not in known:
            known[kind] = _cost_of_a_step(config, device)
        per_step = known[kind]
        flops += per_step[0] * config.training.train_steps
        seconds += per_step[1] * config.training.train_steps
    steps = sum(config.training.train_steps for config in configs)
    busy = max(1, min(workers, len(configs)))
    return Estimate(len(configs), steps, flops, seconds / busy, workers)


def _kind(config: Config) -> str:
    """What decides the cost of a step: everything but the seed and the number of steps."""
    training = config.training.model_copy(update={"seed": 0, "train_steps": 1})
    return config.model_copy(update={"training": training, "out_dir": "", "name": ""}).to_json()


def _cost_of_a_step(config: Config, device: str) -> tuple[float, float]:
    threads = torch.get_num_threads()
    torch.set_num_threads(config.training.threads or threads)
    try:
        task = build_task(config.task)
        model = build_model(config.model, task.d_x, task.d_y).to(device)
        optimizer = make_optimizer(config, model)

        def step(number: int) -> None:
            batch = sample_step(task, config, number).to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = model.loss(batch)
            loss.backward()
            optimizer.step()
            float(loss.detach())  # waits for a GPU

        with flop_counter() as counter:
            step(0)
        started = time.perf_counter()
        for number in range(TIMED):
            step(number + 1)
        return float(counter.get_total_flops()), (time.perf_counter() - started) / TIMED
    finally:
        torch.set_num_threads(threads)


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(42), duration(600), duration(3 * 3600), duration(10 * 86400)
    ('42 s', '10 min', '3.0 h', '10.0 days')
    """
    for unit, name, digits in ((86400.0, "days", 1), (3600.0, "h", 1), (60.0, "min", 0)):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.{digits}f} {name}"
    return f"{seconds:.0f} s"
