"""icgd bench machine: an update in context beside eager PyTorch with the same optimizer, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional

from icgd.cli.benchmarks.measure import (
    BenchRow,
    bench_table,
    compare,
    cpu_time,
    one_thread,
    write_bench,
)
from icgd.mechanisms import compile as compile_program
from icgd.transformer.gadgets.native.kernels import kernels_available

UPDATES = 300
TARGETS = {"torch": 9.0, "cpp": 1.2}
WIDTHS, DEPTHS, BATCHES = (16, 32, 64, 128), (1, 2, 3, 4), (8, 32, 128)
STANDARD = (64, 2, 32)
"""Width, layers with weights, and rows of a batch, of which one is changed at a time."""


@dataclass(frozen=True)
class GrowthRow:
    """One size: microseconds per update, and the ratio of the two."""

    grows: str
    size: int
    kernels: str
    ours: float
    theirs: float
    ratio: float


def bench_machine(json_path: Path | None = None) -> list[BenchRow]:
    """Measure, print both tables, write JSON if asked."""
    console = Console()
    every = ["torch", *(["cpp"] if kernels_available() else [])]
    rows, growth = [], []
    with one_thread():
        for kernels in every:
            console.print(f"MLP 64-64-64, batch 32, heads by {kernels} ...", style="dim")
            rows.append(_standard(kernels))
        for grows, sizes in (("width", WIDTHS), ("depth", DEPTHS), ("batch", BATCHES)):
            for size in sizes:
                console.print(f"{grows} {size} ...", style="dim")
                growth += [_grown(grows, size, kernels) for kernels in every]
    console.print(bench_table(rows, "icgd bench machine"))
    console.print(_growth_table(growth))
    if "cpp" not in every:
        console.print(
            "No C++ compiler answers here, so heads were measured as torch operations only."
        )
    if json_path is not None:
        write_bench(json_path, rows=rows, growth=growth)
    return rows


def _standard(kernels: str) -> BenchRow:
    ours, theirs, ratio = measured(*STANDARD, kernels)
    target = TARGETS[kernels]
    what = f"update / eager PyTorch, MLP 64-64-64, batch 32, SGD with momentum, heads by {kernels}"
    return BenchRow(what, ours, theirs, ratio, target, ratio <= target)


def _grown(grows: str, size: int, kernels: str) -> GrowthRow:
    width, depth, batch = STANDARD
    sizes = {"width": width, "depth": depth, "batch": batch} | {grows: size}
    ours, theirs, ratio = measured(sizes["width"], sizes["depth"], sizes["batch"], kernels)
    return GrowthRow(grows, size, kernels, ours, theirs, ratio)


def measured(width: int, depth: int, batch: int, kernels: str) -> tuple[float, float, float]:
    """Microseconds of CPU time per update, ours and PyTorch's, and the ratio."""
    ours, theirs = both_ways(width, depth, batch, kernels)
    a, b, ratio = compare(ours, theirs, clock=cpu_time)
    return a * 1e6 / UPDATES, b * 1e6 / UPDATES, ratio


def both_ways(
    width: int, depth: int, batch: int, kernels: str
) -> tuple[Callable[[], object], Callable[[], object]]:
    """The same updates from the same weights: by a compiled program, and by eager PyTorch."""
    generator = torch.Generator().manual_seed(0)
    shape = (batch * UPDATES, width)
    X, y = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    layers: list[nn.Module] = []
    for layer in range(depth):
        layers += [nn.Linear(width, width), *([nn.ReLU()] if layer < depth - 1 else [])]
    model = nn.Sequential(*layers).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    program = compile_program(
        model, optimizer, loss=functional.mse_loss, example=(X[:batch], y[:batch]), kernels=kernels
    )
    init = {name: value.clone() for name, value in model.state_dict().items()}

    def ours() -> object:
        return program.run(X, y, init=init)

    def theirs() -> None:
        for x, t in zip(X.split(batch), y.split(batch), strict=True):
            optimizer.zero_grad()
            functional.mse_loss(model(x), t).backward()
            optimizer.step()

    return ours, theirs


def _growth_table(rows: list[GrowthRow]) -> Table:
    table = Table(title="How it grows from there (microseconds of CPU time per update)")
    for name in ("", "size", "heads by", "icgd", "PyTorch", "ratio"):
        table.add_column(name, justify="left" if name in ("", "heads by") else "right")
    for row in rows:
        cells = (f"{row.ours:.0f}", f"{row.theirs:.0f}", f"{row.ratio:.2f}")
        table.add_row(row.grows, str(row.size), row.kernels, *cells)
    return table
