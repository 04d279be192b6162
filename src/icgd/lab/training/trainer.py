"""The trainer: a flat loop. Data of step s depend on (seed, s) alone, so a run can stop and go on anywhere."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from icgd.base.atomic import only_writer
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.lab.models.build import build_model
from icgd.lab.tasks import Task, build_task
from icgd.lab.tasks.base import PairTask
from icgd.lab.tasks.batch import Batch
from icgd.lab.training.checkpoints import (
    NAME,
    RUNNING,
    Checkpoint,
    check_same_run,
    load_checkpoint,
    load_weights,
    restore,
    save_checkpoint,
)
from icgd.lab.training.config import Config
from icgd.lab.training.distributed import Group, process_group
from icgd.lab.training.journal import Journal, check_tracking
from icgd.lab.training.sizes import check_training

Report = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Trained:
    """A finished run.

    loss   mean over the last logged stretch of steps
    leads  whether this process is the one that writes
    """

    model: nn.Module
    config: Config
    directory: Path
    step: int
    loss: float
    leads: bool = True


def data_generator(seed: int, step: int) -> torch.Generator:
    """The generator of one step's data: no state is carried from step to step."""
    # Two seeds must not share data at shifted steps: mix them before use.
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**63
    return torch.Generator().manual_seed(mixed)


def sample_step(task: Task, config: Config, step: int) -> Batch:
    """The global batch of a step."""
    training, curriculum = config.training, config.training.curriculum
    points = training.n_points if curriculum.points is None else curriculum.points.at(step)
    dims = None if curriculum.dims is None else curriculum.dims.at(step)
    generator = data_generator(training.seed, step)
    return task.sample(training.batch_size, points, generator=generator, n_dims=dims)


def check_prompts(config: Config, task: Task) -> None:
    """Complain about prompts that the model or the task cannot have, before anything is written."""
    t, model = config.training, config.model
    wanted = "series" if not isinstance(task, PairTask) else "pairs"
    if (model.layout == "series") != (wanted == "series"):
        raise InvalidParameter(
            "model.layout",
            model.layout,
            f"fit the prompts of {task.name}, which are {wanted}",
            remedy="Series need layout='series', pairs 'interleaved' or 'concatenated'.",
        )
    points, dims = t.curriculum.points, t.curriculum.dims
    lengths = {"training.n_points": t.n_points}
    if points is not None:
        lengths["training.curriculum.points.end"] = max(points.start, points.end)
    for name, longest in lengths.items():
        if longest > model.n_positions:
            raise InvalidParameter(
                name, longest, f"be at most model.n_positions = {model.n_positions}"
            )
    if dims is not None and max(dims.start, dims.end) > task.d_x:
        raise InvalidParameter(
            "training.curriculum.dims.end", dims.end, f"be at most task.n_dims = {task.d_x}"
        )
    check_device(t.device)


def check_device(name: str, called: str = "training.device") -> None:
    """Complain about a device that this machine does not have."""
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split()).split(". ")[0][:100]
        raise InvalidParameter(
            called, name, "be a device of this machine", remedy=f"Use cpu ({reason})."
        ) from error


def make_optimizer(config: Config, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of a configuration; fused where PyTorch has it, which changes no loss curve."""
    t = config.training
    if t.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=t.learning_rate, weight_decay=t.weight_decay)
    kind = torch.optim.AdamW if t.optimizer == "adamw" else torch.optim.Adam
    return kind(model.parameters(), lr=t.learning_rate, weight_decay=t.weight_decay, fused=True)


def train(
    config: Config,
    *,
    restart: bool = False,
    report: Report | None = None,
    stop_after: int | None = None,
    weights_of: Path | None = None,
    wait: bool = False,
) -> Trained:
    """Train, or go on where the run in `config.out_dir` stopped.

    restart     begin anew even if there is a checkpoint
    report      called with (steps done, steps in all, loss) once in a while
    stop_after  stop after so many steps of this call (for tests and time limits)
    weights_of  begin with the weights of this run, unless there is a run to go on with
    wait        if another process trains in the same directory, wait for it instead of raising DirectoryInUse
    """
    t, directory = config.training, Path(config.out_dir)
    if t.threads is not None:
        torch.set_num_threads(t.threads)
    check_training(config)
    task = build_task(config.task)
    check_prompts(config, task)
    check_tracking(config)
    with process_group(t.batch_size, t.device) as group, _alone(directory, group, wait):
        torch.manual_seed(t.seed)
        model = build_model(config.model, task.d_x, task.d_y).to(group.device(t.device))
        optimizer = make_optimizer(config, model)
        start, running = 0, RUNNING
        if (directory / NAME).is_file() and not restart:
            checkpoint = load_checkpoint(directory)
            check_same_run(checkpoint, config, directory)
            restore(checkpoint, model, optimizer)
            _warn_of_other_versions(checkpoint, directory)
            start, running = checkpoint.step, checkpoint.running
        elif weights_of is not None:
            load_weights(load_checkpoint(weights_of), model)
        with Journal(directory, start, config, group.leads) as journal:
            run = _Run(config, task, group, model, optimizer, journal, report)
            run.total, run.count, run.loss = running
            run.saved = start or -1
            end = t.train_steps if stop_after is None else min(t.train_steps, start + stop_after)
            for step in range(start, end):
                run.step(step)
            run.finish(max(start, end))
        return Trained(model, config, directory, max(start, end), run.loss, group.leads)


@contextmanager
def _alone(directory: Path, group: Group, wait: bool) -> Iterator[None]:
    """No other process trains in the directory; one of the group holds it for all."""
    with only_writer(directory, wait=wait) if group.leads else nullcontext():
        group.barrier()  # nobody reads a checkpoint before
        yield


def _warn_of_other_versions(checkpoint: Checkpoint, directory: Path) -> None:
    before = checkpoint.versions.get("torch", torch.__version__)
    if before != torch.__version__:
        warnings.warn(
            f"{directory} was trained with torch {before} so far and goes on with {torch.__version__}: its "
            "weights may differ in rounding from those of a run that was not interrupted.",
            stacklevel=3,
        )


class _Run:
    """The loop's body and what it counts."""

    def __init__(
        self,
        config: Config,
        task: Task,
        group: Group,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        journal: Journal,
        report: Report | None,
    ) -> None:
        self.config, self.task, self.group, self.journal = config, task, group, journal
        self.model, self.optimizer, self.report = model, optimizer, report
        # The loss is computed inside the wrapped module, where DDP sees every parameter used.
        self._loss_of: Callable[..., Tensor] = group.wrap(_Loss(model))
        if config.training.compile:
            self._loss_of = torch.compile(self._loss_of)
        self.total, self.count, self.loss = 0.0, 0, math.nan
        self._since, self._steps = time.perf_counter(), 0
        self.saved = -1

    def step(self, step: int) -> None:
        t = self.config.training
        batch = self.group.share(sample_step(self.task, self.config, step))
        batch = batch.to(self.group.device(t.device))
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = t.rate_at(step)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss_of(batch.xs, batch.ys, batch.kind, batch.counted)
        value = float(self.group.mean(loss.detach()))
        if not math.isfinite(value):
            raise AssumptionViolated(self._diverged(step, value))
        loss.backward()
        if t.grad_clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), t.grad_clip)
        self.optimizer.step()
        self.total, self.count, self._steps = self.total + value, self.count + 1, self._steps + 1
        done = step + 1
        if done % t.log_every_steps == 0 or done == t.train_steps:
            self._log(done)
        if done % t.save_every_steps == 0:
            self._save(done)

    def finish(self, done: int) -> None:
        if done != self.saved:
            self._save(done)

    def _log(self, done: int) -> None:
        self.loss = self.total / self.count
        seconds = time.perf_counter() - self._since
        if self.group.leads:
            self.journal.write(
                step=done,
                loss=self.loss,
                lr=self.config.training.rate_at(done - 1),
                steps_per_second=self._steps / max(seconds, 1e-9),
            )
            if self.report is not None:
                self.report(done, self.config.training.train_steps, self.loss)
        self.total, self.count = 0.0, 0
        self._since, self._steps = time.perf_counter(), 0

    def _save(self, done: int) -> None:
        if not all(bool(p.isfinite().all()) for p in self.model.parameters()):
            # An infinite gradient under a finite loss: the checkpoint before must stay.
            raise AssumptionViolated(self._diverged(done - 1, math.nan))
        if self.group.leads:
            self.journal.sync()
            every = self.config.training.keep_every_steps
            save_checkpoint(
                Path(self.config.out_dir),
                done,
                self.config,
                self.model,
                self.optimizer,
                running=(self.total, self.count, self.loss),
                keep=bool(every) and done % every == 0,
            )
        self.saved = done
        self.group.barrier()

    def _diverged(self, step: int, value: float) -> str:
        directory = Path(self.config.out_dir)
        rate = f"--set training.learning_rate={self.config.training.learning_rate / 2:g}"
        if (directory / NAME).is_file():
            there = (
                "the last good checkpoint is kept. Go on from it with a smaller step in another directory: "
                f"icgd train ... --from {directory} {rate} --set out_dir=..."
            )
        else:
            there = (
                f"there is no checkpoint yet. Begin anew with a smaller step: icgd train ... {rate}"
            )
        return (
            f"The loss of step {step + 1} is {value}: training diverged; {there}, or clip gradients "
            "(training.grad_clip=1)."
        )


class _Loss(nn.Module):
    """A model's loss as a module's forward, for wrappers that only know forward."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, xs: Tensor, ys: Tensor, kind: Any, counted: Tensor | None) -> Tensor:
        loss: Tensor = self.model.loss(Batch(xs, ys, kind, counted))  # type: ignore[operator]
        return loss
