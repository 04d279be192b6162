"""The trainer: a flat loop. Data of step s depend on (seed, s) alone, so a run can stop and go on anywhere."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from icgd.errors import AssumptionViolated, InvalidFile, InvalidParameter
from icgd.training.batch import Batch
from icgd.training.checkpoints import (
    NAME,
    check_same_run,
    load_checkpoint,
    load_weights,
    restore,
    save_checkpoint,
)
from icgd.training.config import Config
from icgd.training.distributed import Group, process_group
from icgd.training.models.build import build_model
from icgd.training.tasks import Task, build_task
from icgd.training.tasks.base import PairTask

METRICS = "metrics.jsonl"
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
            "model.layout", model.layout, f"fit the prompts of {task.name}, which are {wanted}",
            remedy="Series need layout='series', pairs 'interleaved' or 'concatenated'.",
        )  # fmt: skip
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


def training_seconds(directory: Path) -> float:
    """The time that training took so far, by its metrics; interruptions do not count."""
    seconds, before = 0.0, 0
    for text in (directory / METRICS).read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        seconds += (line["step"] - before) / line["steps_per_second"]
        before = line["step"]
    return seconds


def make_optimizer(config: Config, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of a configuration; fused where PyTorch has it, which changes no loss curve."""
    t = config.training
    if t.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=t.learning_rate, weight_decay=t.weight_decay)
    kind = torch.optim.AdamW if t.optimizer == "adamw" else torch.optim.Adam
    return kind(model.parameters(), lr=t.learning_rate, weight_decay=t.weight_decay, fused=True)


def train(
    config: Config, *, restart: bool = False, report: Report | None = None,
    stop_after: int | None = None, weights_of: Path | None = None,
) -> Trained:  # fmt: skip
    """Train, or go on where the run in `config.out_dir` stopped.

    restart     begin anew even if there is a checkpoint
    report      called with (steps done, steps in all, loss) once in a while
    stop_after  stop after so many steps of this call (for tests and time limits)
    weights_of  begin with the weights of this run, unless there is a run to go on with
    """
    t, directory = config.training, Path(config.out_dir)
    if t.threads is not None:
        torch.set_num_threads(t.threads)
    task = build_task(config.task)
    check_prompts(config, task)
    with process_group(t.batch_size, t.device) as group:
        torch.manual_seed(t.seed)
        model = build_model(config.model, task.d_x, task.d_y).to(group.device(t.device))
        optimizer = make_optimizer(config, model)
        start, running = 0, (0.0, 0, math.nan)
        if (directory / NAME).is_file() and not restart:
            checkpoint = load_checkpoint(directory)
            check_same_run(checkpoint, config, directory)
            restore(checkpoint, model, optimizer)
            start, running = checkpoint.step, checkpoint.running
        elif weights_of is not None:
            load_weights(load_checkpoint(weights_of), model)
        with _Journal(directory, start, config, group) as journal:
            run = _Run(config, task, group, model, optimizer, journal, report)
            run.total, run.count, run.loss = running
            run.saved = start or -1
            end = t.train_steps if stop_after is None else min(t.train_steps, start + stop_after)
            for step in range(start, end):
                run.step(step)
            run.finish(max(start, end))
        return Trained(model, config, directory, max(start, end), run.loss, group.leads)


class _Run:
    """The loop's body and what it counts."""

    def __init__(
        self, config: Config, task: Task, group: Group, model: nn.Module,
        optimizer: torch.optim.Optimizer, journal: _Journal, report: Report | None,
    ) -> None:  # fmt: skip
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
                step=done, loss=self.loss, lr=self.config.training.rate_at(done - 1),
                steps_per_second=self._steps / max(seconds, 1e-9),
            )  # fmt: skip
            if self.report is not None:
                self.report(done, self.config.training.train_steps, self.loss)
        self.total, self.count = 0.0, 0
        self._since, self._steps = time.perf_counter(), 0

    def _save(self, done: int) -> None:
        if not all(bool(p.isfinite().all()) for p in self.model.parameters()):
            # An infinite gradient under a finite loss: the checkpoint before must stay.
            raise AssumptionViolated(self._diverged(done - 1, math.nan))
        if self.group.leads:
            every = self.config.training.keep_every_steps
            save_checkpoint(
                Path(self.config.out_dir), done, self.config, self.model, self.optimizer,
                running=(self.total, self.count, self.loss),
                keep=bool(every) and done % every == 0,
            )  # fmt: skip
        self.saved = done
        self.group.barrier()

    def _diverged(self, step: int, value: float) -> str:
        directory = Path(self.config.out_dir)
        there = "the last good checkpoint is kept"
        if not (directory / NAME).is_file():
            there = "no checkpoint had been written"
        return (
            f"The loss of step {step + 1} is {value}: training diverged; {there}. Go on from it with a smaller "
            f"step in another directory: icgd train ... --from {directory} --set training.learning_rate="
            f"{self.config.training.learning_rate / 2:g} --set out_dir=..., or clip gradients "
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


class _Journal:
    """metrics.jsonl: one line per logged step; lines after the checkpoint a run goes on from are dropped."""

    def __init__(self, directory: Path, start: int, config: Config, group: Group) -> None:
        self.path, self.start = directory / METRICS, start
        self.config, self.leads = config, group.leads
        self._file: Any = None
        self._board: Any = None

    def __enter__(self) -> _Journal:
        if not self.leads:
            return self
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            kept = [line for line in self._lines() if line["step"] <= self.start]
            temporary = self.path.with_name(f".{self.path.name}.tmp")
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept))
            os.replace(temporary, self.path)
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise InvalidFile(
                f"{self.path} cannot be written: {error.strerror or error}."
            ) from error
        if self.config.training.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # Steps after the checkpoint are done again: what the board has of them is dropped.
            place, again = str(self.path.parent / "tensorboard"), self.start + 1
            self._board = SummaryWriter(place, purge_step=again if self.start else None)
        return self

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.is_file() or not self.start:
            return []
        found = []
        for text in self.path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # a line that was being written when the process was killed
            if isinstance(line, dict) and "step" in line:
                found.append(line)
        return found

    def write(self, **line: Any) -> None:
        """One line, and the same numbers for TensorBoard if it is wanted."""
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError as error:
            raise InvalidFile(
                f"{self.path} cannot be written: {error.strerror or error}. The last checkpoint is whole; free "
                "space and start the same command again."
            ) from error
        if self._board is not None:
            for name in ("loss", "lr"):
                self._board.add_scalar(name, line[name], line["step"])

    def __exit__(self, *error: object) -> None:
        for open_ in (self._file, self._board):
            if open_ is not None:
                open_.close()
