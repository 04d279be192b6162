"""icgd bench linear-models: a step in context against a step of a plain loop, and what a stack would cost."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from icgd.cli.benchmarks.measure import BenchRow, bench_table, compare, one_thread, write_bench
from icgd.mechanisms import compile as compile_program
from icgd.problems import GD, GLM, Lasso, LinearModel, Ridge
from icgd.transformer.blocks import pack_block
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.program import Program

N, D, STEPS, LAM = 569, 30, 1000, 0.01
TARGET = 8.0
STACKS = (10, 100, 1000)


def bench_linear_models(json_path: Path | None = None) -> tuple[list[BenchRow], list[MemoryRow]]:
    """Measure, print both tables, write JSON if asked."""
    console = Console()
    rows = []
    with one_thread():
        for name, problem, y, loop in _cases():
            console.print(f"{name}, n={N}, d={D} ...", style="dim")
            rows.append(_against_loop(name, problem, y, loop))
        console.print("20,000 steps ...", style="dim")
        rows.append(_long_run())
        console.print("stacks ...", style="dim")
        memory = _memory()
    console.print(bench_table(rows, "icgd bench linear-models"))
    console.print(_memory_table(memory))
    if json_path is not None:
        write_bench(json_path, rows=rows, memory=memory)
    return rows, memory


def _data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N, D, generator=generator, dtype=torch.float64)
    s = 0.2 * X @ torch.randn(D, generator=generator, dtype=torch.float64)
    return X, s + 0.1 * torch.randn(N, generator=generator, dtype=torch.float64)


Loop = Callable[[Tensor, Tensor, float, int], Tensor]


def _cases() -> list[tuple[str, LinearModel, Tensor, Loop]]:
    _, s = _data()

    def loop(mean: Callable[[Tensor], Tensor], *, l1: bool = False) -> Loop:
        def run(X: Tensor, y: Tensor, lr: float, steps: int) -> Tensor:
            w = torch.zeros(D, dtype=torch.float64)
            for _ in range(steps):
                grad = X.T @ (mean(X @ w) - y) / N
                if l1:
                    moved = w - lr * grad
                    w = torch.sign(moved) * (moved.abs() - lr * LAM).relu()
                else:
                    w = w - lr * (grad + LAM * w)
            return w

        return run

    return [
        ("ridge", Ridge(D, LAM), s, loop(lambda z: z)),
        ("lasso", Lasso(D, LAM), s, loop(lambda z: z, l1=True)),
        ("logistic", GLM(D, "logistic", LAM), (s > 0).double(), loop(torch.sigmoid)),
        ("poisson", GLM(D, "poisson", LAM), s.exp().round(), loop(torch.exp)),
    ]


def _against_loop(name: str, problem: LinearModel, y: Tensor, loop: Loop) -> BenchRow:
    X, _ = _data()
    lr = 0.05
    program = compile_program(problem, GD(lr))
    ours, theirs, ratio = compare(
        lambda: program.run(X, y, steps=STEPS), lambda: loop(X, y, lr, STEPS)
    )
    scale = 1e6 / STEPS
    return BenchRow(
        f"step of {name} / plain torch loop, n={N}, d={D}",
        ours * scale,
        theirs * scale,
        ratio,
        TARGET,
        ratio <= TARGET,
    )


def _long_run(n_steps: int = 20_000, stretch: int = 500, n_pairs: int = 11) -> BenchRow:
    """The prompt grows, the time of a step does not.

    Every one of the last stretches is followed at once by the same stretch of a run just begun, so
    that both see the same machine.
    """
    X, y = _data()
    program = compile_program(Ridge(D, LAM), GD(0.05))
    late: list[float] = []
    early: list[float] = []
    since = time.perf_counter()

    def stamp(done: int, total: int) -> None:
        nonlocal since
        if done % stretch:
            return
        if done > n_steps - n_pairs * stretch:
            late.append((time.perf_counter() - since) / stretch)
            early.append(_first_steps(program, X, y, stretch))
        since = time.perf_counter()

    program.run(X, y, steps=n_steps, progress=stamp)
    ratio = statistics.median(a / b for a, b in zip(late, early, strict=True))
    return BenchRow(
        f"step after {n_steps - n_pairs * stretch:,} steps / at the start",
        statistics.median(late) * 1e6,
        statistics.median(early) * 1e6,
        ratio,
        1.2,
        ratio <= 1.2,
    )


def _first_steps(program: Program, X: Tensor, y: Tensor, stretch: int) -> float:
    """Seconds per step at the beginning of a run, planning left out."""
    stamps: list[float] = []

    def stamp(done: int, total: int) -> None:
        if done in (10, 10 + stretch):
            stamps.append(time.perf_counter())

    program.run(X, y, steps=10 + stretch, progress=stamp)
    return (stamps[1] - stamps[0]) / stretch


@dataclass(frozen=True)
class MemoryRow:
    """One chain of thought of L steps against L copies of the same layer on top of each other.

    Megabytes, with literal matrices on both sides: what the theorems count. Peaks are of the resident
    memory of a process of its own, above that of one that only compiles. The window is one block, and
    the whole prompt, if one keeps it, L of them.
    """

    steps: int
    cot_weights: float
    stack_weights: float
    cot_peak: float
    stack_peak: float
    window: float
    whole_prompt: float


N_MEMORY, D_MEMORY = 16, 64


def _memory_case() -> tuple[Program, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N_MEMORY, D_MEMORY, generator=generator, dtype=torch.float64)
    return compile_program(Ridge(D_MEMORY, LAM), GD(0.05)), X, X[:, 0]


def _memory() -> list[MemoryRow]:
    program, *_ = _memory_case()
    assert isinstance(program.step, Layer)
    dense = program.step.dense(N_MEMORY)
    weights = sum(p.numel() * p.element_size() for p in dense.parameters()) / 1e6
    block = N_MEMORY * program.layout.width * program.step.like.element_size() / 1e6
    # A process of its own for every number: memory that was once used is seldom given back.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        idle = pool.submit(peak_memory, "idle", 0).result()
        peaks = {
            (kind, length): pool.submit(peak_memory, kind, length).result() - idle
            for length in STACKS
            for kind in ("one layer", "copies")
        }
    return [
        MemoryRow(
            length,
            weights,
            length * weights,
            peaks["one layer", length],
            peaks["copies", length],
            block,
            length * block,
        )
        for length in STACKS
    ]


def peak_memory(kind: str, length: int) -> float:
    """Largest resident memory of this process in MB after doing one thing."""
    import resource

    torch.set_num_threads(1)
    program, X, y = _memory_case()
    program.run(X, y, steps=1, executor="dense")
    if kind == "one layer":
        program.run(X, y, steps=length, executor="dense")
    elif kind == "copies":
        _run_stack(program, length, X, y)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _run_stack(program: Program, length: int, X: Tensor, y: Tensor) -> Tensor:
    """L copies of the layer, all of them kept, applied one after another."""
    assert isinstance(program.step, Layer)
    dense = program.step.dense(N_MEMORY)
    layers = [copy.deepcopy(dense) for _ in range(length)]
    session = program.codec.session(X, y, init=None, epochs=None, steps=1, padded=False)
    (block,) = session.prompt.values()
    tokens = pack_block(block, program.layout, N_MEMORY, X)
    with torch.no_grad():
        for layer in layers:
            tokens = layer(tokens)
    return tokens


def _memory_table(rows: list[MemoryRow]) -> Table:
    table = Table(title="One layer used L times against L layers (ridge, n=16, d=64; megabytes)")
    names = {
        "steps": "L",
        "cot_weights": "weights, chain of thought",
        "stack_weights": "weights, stack",
        "cot_peak": "peak memory, chain of thought",
        "stack_peak": "peak memory, stack",
        "window": "window",
        "whole_prompt": "whole prompt, if kept",
    }
    for title in names.values():
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(f"{row.steps:,}", *(f"{getattr(row, name):.3g}" for name in list(names)[1:]))
    return table
