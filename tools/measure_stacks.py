"""Measure the accuracy tables of docs/stacks.md: stacks against autograd, over seeds.

python -m tools.measure_stacks            rewrite the tables between their markers
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import torch

import icgd
from icgd.oracle import network_gd_steps
from icgd.problems import Weights

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "stacks.md"
SEEDS = range(5)
SMOOTH = ("tanh", "sigmoid", "softplus", "gelu")


def example(
    net: icgd.Network, seed: int, n: int = 20, box: float = 1.5
) -> tuple[torch.Tensor, torch.Tensor, Weights]:
    """Inputs and targets in [-1, 1], weights in the box."""
    g = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=g, dtype=torch.float64) * 2 - 1

    weights: Weights = [
        (W.clamp(-box, box), None if b is None else 0.1 * uniform(len(b)))
        for W, b in net.init(seed)
    ]
    targets = uniform(n, net.widths[-1])
    if net.spec.output in ("sigmoid", "softplus", "relu"):
        targets = targets.abs()
    return uniform(n, net.widths[0]), targets, weights


def errors(program: icgd.Program, net: icgd.Network, seed: int, steps: int) -> list[float]:
    """Largest weight difference to autograd after every step."""
    X, Y, init = example(net, seed)
    exact = network_gd_steps(net.spec, init, X, Y, program.optimizer.lr, program.optimizer.box)
    history = program.run(X, Y, init=init, steps=steps, record="weights").history
    return [
        max(
            float((p - q).abs().max())
            for a, b in zip(weights, want, strict=True)
            for p, q in zip(a, b, strict=True)
            if p is not None
        )
        for weights, want in zip(history, exact, strict=False)
    ]


def pair(first: float, last: float) -> str:
    """Two errors in one cell."""
    return f"{first:.0e} / {last:.0e}"


def stack_table() -> Iterator[str]:
    """N=3, K=4, 20 examples, lr 0.5, box 1.5, radius 8: steps 1 and 20, largest of five seeds."""
    sizes = (16, 64, 256, 1024)
    yield "| activation | knots | " + " | ".join(f"{n} units" for n in sizes) + " |"
    yield "|---|---|" + "---|" * len(sizes)
    for act in SMOOTH:
        net = icgd.Network((3, 4, 4, 3), act, output=act, bias=False)
        for knots in ("uniform", "adaptive"):
            cells = []
            for n in sizes:
                program = icgd.compile(
                    net, icgd.GD(0.5, box=1.5), method="stack", n_relu=n, knots=knots, radius=8.0
                )
                found = [errors(program, net, seed, 20) for seed in SEEDS]
                cells.append(pair(max(e[0] for e in found), max(e[-1] for e in found)))
            yield f"| {act} | {knots} | " + " | ".join(cells) + " |"


def relu_table() -> Iterator[str]:
    """ReLU networks, N=3, K=6, 20 examples, lr 0.2, 50 steps: median and largest of five seeds."""
    yield "| products | executor | median | largest |"
    yield "|---|---|---|---|"
    net = icgd.Network((3, 6, 6, 3), "relu", output="relu", bias=False)
    for products in ("exact", "attention"):
        program = icgd.compile(
            net, icgd.GD(0.2), method="stack", products=products, signal_radius=16.0
        )
        found = [errors(program, net, seed, 50)[-1] for seed in SEEDS]
        yield f"| {products} | structured | {statistics.median(found):.0e} | {max(found):.0e} |"


def forward_table() -> Iterator[str]:
    """lr 0.3, box 1.5, 20 examples, radius 8: steps 1 and 5, largest of three seeds."""
    cases = (
        ("softplus", "tanh", 100),
        ("softplus", "tanh", 200),
        ("softplus", "sigmoid", 200),
        ("softplus", "relu", 200),
        ("gelu", "tanh", 200),
        ("tanh", "tanh", 200),
        ("sigmoid", "tanh", 200),
        ("relu", "relu", 200),
    )
    nets = ((3, 4, 1), (3, 4, 4, 1), (2, 3, 3, 3, 1))
    yield "| network | heads | units | " + " | ".join(str(w) for w in nets) + " |"
    yield "|---|---|---|" + "---|" * len(nets)
    for act, heads, units in cases:
        cells = []
        for widths in nets:
            net = icgd.Network(widths, act, bias=False)
            program = icgd.compile(
                net, icgd.GD(0.3, box=1.5), method="forward_mode", n_relu=units, attention=heads
            )
            found = [errors(program, net, seed, 5) for seed in range(3)]
            cells.append(pair(max(e[0] for e in found), max(e[-1] for e in found)))
        yield f"| {act} | {heads} | {units} | " + " | ".join(cells) + " |"


TABLES = {"stack": stack_table, "relu": relu_table, "forward": forward_table}


def main() -> None:
    """Rewrite every table between `<!-- name -->` and `<!-- end -->`."""
    torch.set_num_threads(1)
    text = PAGE.read_text(encoding="utf-8")
    for name, rows in TABLES.items():
        body = "\n".join(rows())
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(\n<!-- end -->)",
            lambda m, body=body: m.group(1) + body + m.group(2),
            text,
            flags=re.DOTALL,
        )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
