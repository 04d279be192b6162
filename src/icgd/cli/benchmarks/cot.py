"""icgd bench cot: ratios measured in one run, on one thread. Times alone mean nothing."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor, nn

from icgd.cli.benchmarks.measure import (
    BenchRow,
    bench_table,
    compare,
    one_thread,
    resident_mb,
    write_bench,
)
from icgd.mechanisms import compile as compile_program
from icgd.problems import SGD, Network

LR = 1e-4
SINGLE = ((10, 3, 2000), (64, 6, 1000), (256, 9, 600))
MANY = ((10, 3, 200), (32, 4, 100))
N_PROBLEMS = 256


def bench_cot(json_path: Path | None = None) -> list[BenchRow]:
    """Measure, print the table, write JSON if asked."""
    console = Console()
    rows = []
    with one_thread():
        for d, n_layers, n_rounds in SINGLE:
            console.print(f"eager SGD, d={d}, N={n_layers} ...", style="dim")
            rows.append(_single(d, n_layers, n_rounds))
        for d, n_layers, n_rounds in MANY:
            console.print(f"{N_PROBLEMS} problems, d={d}, N={n_layers} ...", style="dim")
            rows.append(_many(d, n_layers, n_rounds))
        console.print("10,000 rounds ...", style="dim")
        rows += _long_run()
    console.print(bench_table(rows, "icgd bench cot"))
    if json_path is not None:
        write_bench(json_path, rows=rows)
    return rows


def _data(d: int, n_rounds: int, *batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(*batch, n_rounds, d, generator=generator, dtype=torch.float64)
    Y = torch.randn(*batch, n_rounds, d, generator=generator, dtype=torch.float64)
    return X, Y


def _single(d: int, n_layers: int, n_rounds: int) -> BenchRow:
    """One network, one example a round, against nn.Sequential and torch.optim.SGD."""
    net = Network((d,) * (n_layers + 1))
    program = compile_program(net, SGD(LR))
    X, Y = _data(d, n_rounds)
    init = net.init(seed=0)
    modules: list[nn.Module] = []
    for i in range(n_layers):
        modules += [nn.Linear(d, d, dtype=torch.float64)] + (
            [nn.ReLU()] if i < n_layers - 1 else []
        )
    model = nn.Sequential(*modules)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def eager() -> None:
        for x, y in zip(X, Y, strict=True):
            optimizer.zero_grad()
            (0.5 * (model(x) - y).square().sum()).backward()
            optimizer.step()

    ours, theirs, ratio = compare(lambda: program.run(X, Y, init=init), eager)
    scale = 1e6 / n_rounds
    return BenchRow(
        f"round / eager torch.optim.SGD, d={d}, N={n_layers}",
        ours * scale,
        theirs * scale,
        ratio,
        1.0,
        ratio <= 1.0,
    )


def _many(d: int, n_layers: int, n_rounds: int) -> BenchRow:
    """Many networks at once, against torch.func.vmap over grad."""
    net = Network((d,) * (n_layers + 1))
    program = compile_program(net, SGD(LR))
    X, Y = _data(d, n_rounds, N_PROBLEMS)
    init = net.init(seed=0, n_problems=N_PROBLEMS)

    def loss(params: list[tuple[Tensor, Tensor]], x: Tensor, y: Tensor) -> Tensor:
        for i, (W, b) in enumerate(params):
            x = W @ x + b
            if i < n_layers - 1:
                x = torch.relu(x)
        return 0.5 * (x - y).square().sum()

    step = torch.func.vmap(torch.func.grad(loss))

    def functional() -> None:
        params = [(W.clone(), b.clone()) for W, b in init if b is not None]
        for t in range(n_rounds):
            grads = step(params, X[:, t], Y[:, t])
            for (W, b), (dW, db) in zip(params, grads, strict=True):
                W.sub_(dW, alpha=LR)
                b.sub_(db, alpha=LR)

    ours, theirs, ratio = compare(lambda: program.run(X, Y, init=init), functional)
    scale = 1e6 / n_rounds
    return BenchRow(
        f"{N_PROBLEMS} problems / torch.func.vmap SGD, d={d}, N={n_layers}",
        ours * scale,
        theirs * scale,
        ratio,
        1.2,
        ratio <= 1.2,
    )


def _long_run(n_rounds: int = 10_000, window: int = 1_000) -> list[BenchRow]:
    """Time and memory do not grow with the prompt."""
    net = Network((10, 10, 10, 10))
    program = compile_program(net, SGD(LR))
    X, Y = _data(10, n_rounds)
    stretch = window // 10
    stamps = [time.perf_counter()]
    memory: list[float] = []

    def stamp(done: int, total: int) -> None:
        if done % stretch == 0:
            stamps.append(time.perf_counter())
            memory.append(resident_mb())

    program.run(X[:200], Y[:200], init=net.init(seed=0))
    program.run(X, Y, init=net.init(seed=0), progress=stamp)
    # The machine hiccups now and then: the middle one of ten stretches stands for a window.
    took = [(b - a) / stretch for a, b in pairwise(stamps)]
    early, late = statistics.median(took[:10]), statistics.median(took[-10:])
    ratio = late / early
    memory_early, memory_late = memory[9], memory[-1]
    growth = memory_late / memory_early if memory_early else 1.0
    return [
        BenchRow(
            "rounds 9,000-10,000 / rounds 0-1,000",
            late * 1e6,
            early * 1e6,
            ratio,
            1.2,
            ratio <= 1.2,
        ),
        BenchRow(
            "memory after 10,000 / after 1,000 rounds (MB)",
            memory_late,
            memory_early,
            growth,
            1.05,
            growth <= 1.05,
        ),
    ]
