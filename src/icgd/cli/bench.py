"""icgd bench cot: ratios measured in one run, on one thread. Times alone mean nothing."""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from icgd._version import __version__
from icgd.constructions import compile as compile_program
from icgd.problems import SGD, Network

LR = 1e-4
SINGLE = ((10, 3, 2000), (64, 6, 1000), (256, 9, 600))
MANY = ((10, 3, 200), (32, 4, 100))
N_PROBLEMS = 256
REPEATS = 7


@dataclass(frozen=True)
class BenchRow:
    """One ratio with what it was made from, in microseconds per round."""

    what: str
    ours: float
    theirs: float
    ratio: float
    target: float
    met: bool


def bench_cot(json_path: Path | None = None) -> list[BenchRow]:
    """Measure, print the table, write JSON if asked."""
    console = Console()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = []
        for d, n_layers, n_rounds in SINGLE:
            console.print(f"eager SGD, d={d}, N={n_layers} ...", style="dim")
            rows.append(_single(d, n_layers, n_rounds))
        for d, n_layers, n_rounds in MANY:
            console.print(f"{N_PROBLEMS} problems, d={d}, N={n_layers} ...", style="dim")
            rows.append(_many(d, n_layers, n_rounds))
        console.print("10,000 rounds ...", style="dim")
        rows += _long_run()
    finally:
        torch.set_num_threads(threads)
    console.print(_table(rows))
    if json_path is not None:
        _write(json_path, rows)
    return rows


def _data(d: int, n_rounds: int, *batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(*batch, n_rounds, d, generator=generator, dtype=torch.float64)
    Y = torch.randn(*batch, n_rounds, d, generator=generator, dtype=torch.float64)
    return X, Y


def _compare(
    ours: Callable[[], object], theirs: Callable[[], object]
) -> tuple[float, float, float]:
    """Alternate the two, so that both see the same machine; medians of times and of ratios."""
    ours()
    theirs()
    a, b = [], []
    for _ in range(REPEATS):
        a.append(_seconds(ours))
        b.append(_seconds(theirs))
    ratio = statistics.median(x / y for x, y in zip(a, b, strict=True))
    return statistics.median(a), statistics.median(b), ratio


def _seconds(call: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


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

    ours, theirs, ratio = _compare(lambda: program.run(X, Y, init=init), eager)
    scale = 1e6 / n_rounds
    return BenchRow(
        f"round / eager torch.optim.SGD, d={d}, N={n_layers}",
        ours * scale, theirs * scale, ratio, 1.0, ratio <= 1.0,
    )  # fmt: skip


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

    ours, theirs, ratio = _compare(lambda: program.run(X, Y, init=init), functional)
    scale = 1e6 / n_rounds
    return BenchRow(
        f"{N_PROBLEMS} problems / torch.func.vmap SGD, d={d}, N={n_layers}",
        ours * scale, theirs * scale, ratio, 1.2, ratio <= 1.2,
    )  # fmt: skip


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
            memory.append(_resident_mb())

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
            "rounds 9,000-10,000 / rounds 0-1,000", late * 1e6, early * 1e6, ratio, 1.2, ratio <= 1.2
        ),
        BenchRow(
            "memory after 10,000 / after 1,000 rounds (MB)",
            memory_late, memory_early, growth, 1.05, growth <= 1.05,
        ),
    ]  # fmt: skip


def _resident_mb() -> float:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _table(rows: list[BenchRow]) -> Table:
    table = Table(title="icgd bench cot (one thread; microseconds per round unless said)")
    for name in ("what", "icgd", "other", "ratio", "target", "met"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for r in rows:
        table.add_row(
            r.what, f"{r.ours:.1f}", f"{r.theirs:.1f}", f"{r.ratio:.2f}", f"<= {r.target:g}",
            "yes" if r.met else "[bold red]no",
        )  # fmt: skip
    return table


def _write(path: Path, rows: list[BenchRow]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    versions = {"icgd": __version__, "torch": torch.__version__}
    text = json.dumps({"rows": [asdict(r) for r in rows], "versions": versions}, indent=2)
    partial = path.with_name(path.name + ".part")
    partial.write_text(text + "\n")
    os.replace(partial, path)
