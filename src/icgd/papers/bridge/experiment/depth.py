"""Shallow and deep networks for one function, and what a transformer needs to train them in context."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

import icgd
from icgd.costs import cost
from icgd.errors import InvalidParameter
from icgd.lab.sweeps.cells import Workplace
from icgd.lab.training.schedule import cosine
from icgd.papers.bridge.statements.networks import (
    BallNetwork,
    ball_network,
    draw,
    folded_square,
    in_ball,
)

F64 = torch.float64
BATCH = 256
RATE = 1e-2
TEST_POINTS = 20_000
DRAWN = 500
"""Batches that are drawn at a time."""
N_HALVINGS = 10
"""How often a ramp is halved before a ball counts as out of reach."""
METHODS: tuple[str, ...] = ("forward_mode", "stack", "cot")
BALL, SMOOTH = "ball", "smooth"
FOLDED, SHALLOW, AS_EXACT = "folded", "one hidden layer", "one hidden layer, as exact"


@dataclass(frozen=True)
class Target:
    """A function and the law of its inputs."""

    d: int
    value: Callable[[Tensor], Tensor]
    draw: Callable[[int, int], Tensor]
    """Of a number of points and a seed."""


def smooth_product(x: Tensor) -> Tensor:
    """sin(pi x_1) sin(pi x_2) e^(-x_3^2 - x_4^2): smooth, and no sum of functions of one variable."""
    waves = torch.sin(math.pi * x[:, :2]).prod(dim=1)
    return waves * torch.exp(-x[:, 2:].square().sum(dim=1))


def draw_cube(n: int, d: int, seed: int) -> Tensor:
    """Points (n, d), even on [-1, 1]^d."""
    source = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(n, d, generator=source, dtype=F64) - 1


TARGETS: Mapping[str, Target] = {
    BALL: Target(6, in_ball, lambda n, seed: draw("radial", n, 6, seed)),
    SMOOTH: Target(4, smooth_product, lambda n, seed: draw_cube(n, 4, seed)),
}


def hidden_widths(units: int, layers: int) -> tuple[int, ...]:
    """So many units in equal hidden layers."""
    return (units // layers,) * layers


def resources(widths: Sequence[int], methods: Sequence[str] = METHODS) -> dict[str, dict[str, int]]:
    """What one step on a ReLU network of these widths takes in context, by construction.

    Counts of the constructions as corrected, exact to rounding: `matrices` are three of every head and two of
    every feed-forward layer, `nonzeros` the entries of all of them that are not zero.
    """
    by_method = {}
    for method in methods:
        bill = cost(icgd.Network(tuple(widths), "relu"), method)
        assert bill.heads is not None
        assert bill.hidden is not None
        assert bill.nonzeros is not None
        by_method[str(method)] = {
            "layers": bill.layers,
            "heads": sum(bill.heads),
            "matrices": 3 * sum(bill.heads) + 2 * sum(units > 0 for units in bill.hidden),
            "token": bill.d_token,
            "nonzeros": bill.nonzeros,
        }
    return by_method


def train_network(widths: Sequence[int], target: Target, steps: int, seed: int) -> nn.Sequential:
    """A ReLU network with biases, fitted by Adam on fresh batches, the rate falling like a cosine."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after, dtype=F64), nn.ReLU()]
        network = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for step, points in enumerate(_batches(target, steps, seed)):
        values = target.value(points)
        optimizer.param_groups[0]["lr"] = RATE * cosine(step, steps)
        with torch.enable_grad():
            optimizer.zero_grad()
            (network(points).squeeze(-1) - values).square().mean().backward()
            optimizer.step()
    return network


def _batches(target: Target, steps: int, seed: int) -> Iterator[Tensor]:
    """A batch for every step, drawn many at a time."""
    for part, start in enumerate(range(0, steps, DRAWN)):
        count = min(DRAWN, steps - start)
        # Not the numbers that the first weights are from.
        yield from target.draw(BATCH * count, 1_000_000 * (seed + 1) + part).split(BATCH)


def _test_seed(seed: int) -> int:
    """Of points that no training has seen."""
    return -1 - seed


def trained(
    place: Workplace, *, target: str, layers: int, units: int, steps: int, seed: int
) -> dict[str, Any]:
    """The error of a trained network on fresh points, and what it costs in context.

    layers  hidden layers that share the units
    """
    torch.set_num_threads(1)
    its = TARGETS[target]
    widths = (its.d, *hidden_widths(units, layers), 1)
    network = train_network(widths, its, steps, seed)
    x = its.draw(TEST_POINTS, _test_seed(seed))
    with torch.no_grad():
        error = float((network(x).squeeze(-1) - its.value(x)).square().mean())
    return {"widths": list(widths), "error": {target: [error]}, "resources": resources(widths)}


def naive_errors(place: Workplace, *, targets: Sequence[str], seed: int) -> dict[str, Any]:
    """Errors of a constant and of least squares, fitted on points that nothing is measured on."""
    torch.set_num_threads(1)
    errors = {}
    for name in targets:
        its = TARGETS[name]
        seen, x = its.draw(TEST_POINTS, _naive_seed(seed)), its.draw(TEST_POINTS, _test_seed(seed))
        values, truth = its.value(seen), its.value(x)
        linear = torch.linalg.lstsq(_bordered(seen), values.unsqueeze(1)).solution
        guesses = {
            "constant": values.mean().expand_as(truth),
            "least squares": (_bordered(x) @ linear).squeeze(1),
        }
        errors[name] = {g: float((guess - truth).square().mean()) for g, guess in guesses.items()}
    return {"naive": errors}


def _bordered(x: Tensor) -> Tensor:
    """With a column of ones, for a constant."""
    return torch.cat([x, torch.ones_like(x[:, :1])], 1)


def _naive_seed(seed: int) -> int:
    """Of points that neither trainings nor measurements see."""
    return -1_000_000 - seed


def written_balls(
    place: Workplace, *, dimensions: Sequence[int], deltas: Sequence[float], seed: int
) -> dict[str, Any]:
    """Errors at fresh points of three-layer networks that are written down for one, by dimension and delta."""
    torch.set_num_threads(1)
    errors, needed = {}, {}
    for d in dimensions:
        seen, x = (draw("radial", TEST_POINTS, d, s) for s in (seed, _test_seed(seed)))
        networks = [widest_ball(delta, seen) for delta in deltas]
        truth = in_ball(x)
        errors[f"d = {d}"] = [float((net(x) - truth).square().mean()) for net in networks]
        needed[f"d = {d}"] = [
            {"widths": list(net.widths), **resources(net.widths)["forward_mode"]}
            for net in networks
        ]
    return {"deltas": list(deltas), "error": errors, "resources": needed}


def widest_ball(delta: float, x: Tensor) -> BallNetwork:
    """The ball with the widest ramp, and so the fewest units, whose squared error on a sample is below delta.

    Three quarters of delta: on other points it is a little more or less.
    """
    d, truth = x.shape[1], in_ball(x)
    for halvings in range(2 * N_HALVINGS):
        ramp = 0.5 * 2 ** (-halvings / 2)
        # Squares that err by as much as the ramp is wide.
        ball = ball_network(d, math.ceil(math.sqrt(d / (4 * ramp))), ramp)
        if float((ball(x) - truth).square().mean()) < 0.75 * delta:
            return ball
    raise InvalidParameter("delta", delta, f"be reached by a ramp of 2^-{N_HALVINGS} or more")


def shallow_square(x: Tensor, units: int) -> Tensor:
    """x^2 on [0, 1] by one hidden layer of so many ReLUs: chords, shifted by half of what they miss.

    As many even pieces as units err by 1/(8 units^2), the least that this number of pieces can.
    """
    at = torch.arange(units, dtype=x.dtype) / units
    bends = torch.full((units,), 2 / units, dtype=x.dtype)
    bends[0] = 1 / units
    return torch.relu(x.unsqueeze(-1) - at) @ bends - 1 / (8 * units**2)


def shallow_units(m: int) -> int:
    """The most units with which one hidden layer is no more exact than m folds: 1/(8 u^2) >= 4^-(m+1).

    >>> shallow_units(8)
    181
    """
    return max(1, math.floor(2 ** (m + 1) / math.sqrt(8)))


def squares(
    place: Workplace, *, folds: Sequence[int], test_points: int, seed: int
) -> dict[str, Any]:
    """Largest errors for x^2 at random points, and the price in context.

    A folded network is held against one hidden layer of as many units, and one that is about as exact.
    """
    torch.set_num_threads(1)
    source = torch.Generator().manual_seed(seed)
    x = torch.rand(test_points, generator=source, dtype=F64)
    errors: dict[str, list[float]] = {FOLDED: [], SHALLOW: [], AS_EXACT: []}
    units: dict[str, list[int]] = {name: [] for name in errors}
    prices: dict[str, list[int]] = {name: [] for name in errors}
    for m in folds:
        # A fold has three units; a fourth carries the sum to the next layer.
        widths = {FOLDED: (1, *(4,) * m, 1)}
        approximations = {FOLDED: folded_square(x, m)}
        units[FOLDED].append(4 * m)
        for name, width in ((SHALLOW, 4 * m), (AS_EXACT, shallow_units(m))):
            units[name].append(width)
            widths[name] = (1, width, 1)
            # Few points at a time: every one of them goes through all units.
            approximations[name] = torch.cat([shallow_square(part, width) for part in x.split(256)])
        for name, values in approximations.items():
            errors[name].append(float((values - x * x).abs().max()))
            count = resources(widths[name], ("forward_mode",))["forward_mode"]
            prices[name].append(count["matrices"])
    return {"folds": list(folds), "units_of": units, "error": errors, "matrices_of": prices}
