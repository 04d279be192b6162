"""icgd bench train: a training step against a plain loop around transformers' GPT2Model, in one run."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from icgd.cli.benchmarks.measure import one_thread, write_bench
from icgd.lab.models.config import ModelConfig
from icgd.lab.models.gpt2 import to_gpt2
from icgd.lab.models.standard import StandardModel
from icgd.lab.tasks.batch import Batch
from icgd.lab.training.flops import flop_counter

D, N_POINTS, BATCH, LR = 20, 41, 64, 1e-4
REPEATS = 5
Step = Callable[[Batch], float]


@dataclass(frozen=True)
class TrainCase:
    """A size, how many steps a repeat has, and the ratio of steps per second that is wanted."""

    n_layer: int
    n_head: int
    n_embd: int
    steps: int
    target: float


CASES = (TrainCase(3, 2, 64, 20, 1.25), TrainCase(12, 8, 256, 2, 1.05))


@dataclass(frozen=True)
class TrainRow:
    """Medians over the repeats; flops are those of matrix products and attention in one step.

    ratio            ours / theirs, the median of the ratios of neighbouring repeats
    loss_difference  the largest difference of the two loss curves, relative to the loss
    """

    what: str
    ours_steps_per_second: float
    theirs_steps_per_second: float
    ratio: float
    target: float
    met: bool
    ours_flops: int
    theirs_flops: int
    ours_gflops_per_second: float
    theirs_gflops_per_second: float
    n_steps: int
    first_loss: float
    last_loss: float
    loss_difference: float


def bench_train(
    json_path: Path | None = None, cases: tuple[TrainCase, ...] = CASES
) -> list[TrainRow]:
    """Measure, print the table, write JSON if asked."""
    console = Console()
    rows = []
    with one_thread():
        for case in cases:
            console.print(f"{_name(case)} ...", style="dim")
            rows.append(_measure(case))
    console.print(_table(rows))
    if json_path is not None:
        write_bench(json_path, rows=rows)
    return rows


class PlainLoop(nn.Module):
    """What is commonly done: x and padded y as tokens, nn.Linear, GPT2Model, nn.Linear, every second output."""

    def __init__(self, model: StandardModel) -> None:
        super().__init__()
        self.backbone: Any = to_gpt2(model)
        self.read_in = nn.Linear(D, model.config.n_embd)
        self.read_out = nn.Linear(model.config.n_embd, 1)
        self.read_in.load_state_dict(model.prompt.read_in.state_dict())
        self.read_out.load_state_dict(model.read_out.state_dict())

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        """Predictions at every x."""
        n_batch, n, d = xs.shape
        wide = torch.cat((ys, torch.zeros(n_batch, n, d - 1)), dim=2)
        tokens = torch.stack((xs, wide), dim=2).view(n_batch, 2 * n, d)
        states = self.backbone(inputs_embeds=self.read_in(tokens)).last_hidden_state
        predictions: Tensor = self.read_out(states)[:, ::2]
        return predictions


def _steps_of(case: TrainCase) -> tuple[Step, Step]:
    """Both sides as functions from a batch to its loss, from the same initial weights."""
    config = ModelConfig(
        n_layer=case.n_layer, n_head=case.n_head, n_embd=case.n_embd, n_positions=N_POINTS
    )
    model = StandardModel(config, D, 1)
    model.reset(torch.Generator().manual_seed(0))
    plain = PlainLoop(model)
    plain.train()
    fused = torch.optim.Adam(model.parameters(), lr=LR, fused=True)
    adam = torch.optim.Adam(plain.parameters(), lr=LR)

    def ours(batch: Batch) -> float:
        fused.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        fused.step()
        return loss.item()

    def theirs(batch: Batch) -> float:
        adam.zero_grad()
        loss = (batch.ys - plain(batch.xs, batch.ys)).square().mean()
        loss.backward()
        adam.step()
        return loss.item()

    return ours, theirs


def _measure(case: TrainCase) -> TrainRow:
    """Repeats in turns, on the same batches; the first step of each side is not timed."""
    ours, theirs = _steps_of(case)
    batches = _batches(1 + REPEATS * case.steps)
    flops, losses = [], ([], [])  # type: tuple[list[int], tuple[list[float], list[float]]]
    for side, step in enumerate((ours, theirs)):
        with flop_counter() as counter:
            losses[side].append(step(batches[0]))
        flops.append(counter.get_total_flops())
    rates: tuple[list[float], list[float]] = ([], [])
    for repeat in range(REPEATS):
        part = batches[1 + repeat * case.steps : 1 + (repeat + 1) * case.steps]
        for side, step in enumerate((ours, theirs)):
            gc.collect()
            start = time.perf_counter()
            losses[side].extend([step(batch) for batch in part])
            rates[side].append(len(part) / (time.perf_counter() - start))
    ratio = statistics.median(a / b for a, b in zip(*rates, strict=True))
    a, b = (statistics.median(rate) for rate in rates)
    return TrainRow(
        _name(case),
        a,
        b,
        ratio,
        case.target,
        ratio >= case.target,
        flops[0],
        flops[1],
        a * flops[0] / 1e9,
        b * flops[1] / 1e9,
        len(batches),
        losses[0][0],
        losses[0][-1],
        max(abs(x - y) / y for x, y in zip(*losses, strict=True)),
    )


def _batches(n: int) -> list[Batch]:
    """Linear regression, drawn before anything is timed: both sides train on the same prompts."""
    generator = torch.Generator().manual_seed(1)
    batches = []
    for _ in range(n):
        xs = torch.randn(BATCH, N_POINTS, D, generator=generator)
        batches.append(Batch(xs, xs @ torch.randn(BATCH, D, 1, generator=generator)))
    return batches


def _name(case: TrainCase) -> str:
    return f"{case.n_layer} layers, {case.n_head} heads, width {case.n_embd}"


def _table(rows: list[TrainRow]) -> Table:
    table = Table(
        title="icgd bench train: steps per second against transformers' GPT2Model in a plain loop "
        f"(one thread; d={D}, {N_POINTS} points, batch {BATCH})"
    )
    for name in ("model", "icgd", "GPT2Model", "ratio", "target", "met", "GFLOP/s", "loss curves"):
        table.add_column(name, justify="left" if name == "model" else "right")
    for r in rows:
        table.add_row(
            r.what,
            f"{r.ours_steps_per_second:.3g}",
            f"{r.theirs_steps_per_second:.3g}",
            f"{r.ratio:.2f}",
            f">= {r.target:g}",
            "yes" if r.met else "[bold red]no",
            f"{r.ours_gflops_per_second:.1f} / {r.theirs_gflops_per_second:.1f}",
            f"{r.first_loss:.3f} .. {r.last_loss:.3f}, differ <= {r.loss_difference:.0e} in {r.n_steps} steps",
        )
    return table
