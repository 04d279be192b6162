"""Work of the experiment cot-d: train both operators, let them write whole chains, and compare with SGD."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from icgd.lab.sweeps.cells import Workplace
from icgd.lab.training.trainer import data_generator
from icgd.papers.cot.appendix_d.blocks import (
    Chain,
    Operator,
    Students,
    backward_layout,
    exact_backward,
    exact_chain,
    exact_forward,
    forward_layout,
    random_students,
    roll_out,
)
from icgd.papers.cot.appendix_d.operators import (
    Direction,
    OperatorFit,
    PlainBlock,
    ProductBlock,
    mean_errors,
)

TESTED = 2**30
"""Students are counted from here when operators are tested."""
TIMED_STUDENTS = 8
Pairs = tuple[Tensor, Tensor]


def train_operators(
    place: Workplace,
    *,
    d: int,
    n_layers: int,
    n_rounds: int,
    lr: float,
    students: int,
    fresh: bool,
    block: dict[str, dict[str, Any]],
    epochs: int,
    batch: int,
    rate: float,
    tested: int,
    tested_layers: list[int],
    seed: int,
    grown_from: int = 0,
) -> dict[str, Any]:
    """Both operators on blocks of exact SGD, and roll-outs of students that were never seen.

    students       whose chains an epoch goes through
    fresh          others in every epoch
    block          settings of the operators by direction; "kind" is plain or products
    tested         students that are held out
    tested_layers  depths of students to roll out
    grown_from     width of the students of the first epoch; they grow to d in the first half of the epochs. 0:
                   all have width d
    """
    torch.set_num_threads(1)
    if place.only_cost:
        tested = min(tested, TIMED_STUDENTS)

    def drawn(step: int, count: int, layers: int = n_layers, active: int = d) -> Students:
        return random_students(count, d, layers, n_rounds, lr, data_generator(seed, step), active)

    held_out = exact_chain(drawn(TESTED, tested))
    fits: dict[Direction, OperatorFit] = {}
    unseen = {direction: _pairs(held_out, direction) for direction in _DIRECTIONS}
    for number, direction in enumerate(_DIRECTIONS):
        torch.manual_seed(2 * seed + number)
        fits[direction] = OperatorFit(
            _build(d, direction, block[direction]),
            unseen[direction],
            d=d,
            weight_rows=_weight_rows(d, direction),
            weight_scale=block[direction].get("scale", 1.0),
            epochs=epochs,
            batch=batch,
            rate=rate,
            generator=data_generator(seed, TESTED + 1),
        )
    for epoch in range(epochs):
        if fresh or not epoch:
            width = active_width(d, grown_from, epoch, epochs)
            shown = exact_chain(drawn(epoch, students, active=width))
            kept = {direction: _pairs(shown, direction) for direction in _DIRECTIONS}
        for direction, fit in fits.items():
            fit.epoch(*kept[direction])
    if place.only_cost:
        return {}
    measured: dict[str, Any] = {"curves": {}, "loss": {}, "baselines": {}}
    operators: dict[str, Operator] = {}
    for direction, fit in fits.items():
        rows = _weight_rows(d, direction)
        errors = mean_errors(fit.operator, unseen[direction], d)
        measured["curves"][direction] = [list(pair) for pair in fit.losses]
        measured["loss"][direction] = float(errors.sum())
        if len(rows):
            measured["loss"]["weights"] = float(errors[rows].sum())
        measured["baselines"] |= _baselines(kept[direction], unseen[direction], direction, d)
        operators[direction] = partial(_written, fit.operator)
    exact: dict[str, Operator] = {
        "forward": partial(exact_forward, d=d),
        "backward": partial(exact_backward, d=d, lr=lr),
    }
    measured["chains"] = {
        str(n): _distances(
            drawn(TESTED + 1 + n, tested, n), operators["forward"], operators["backward"]
        )
        for n in tested_layers
    }
    again = drawn(TESTED + 1 + n_layers, tested)
    for name in _DIRECTIONS:
        mixed = {**operators, name: exact[name]}
        chain = _distances(again, mixed["forward"], mixed["backward"])
        measured[f"exact_{name}"] = chain["off_mean"][-1]
    return measured


_DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")


def active_width(d: int, grown_from: int, epoch: int, epochs: int) -> int:
    """How wide students are in an epoch: all widths for as long as each other, in the first half of the epochs.

    >>> [active_width(4, 2, epoch, 8) for epoch in range(8)], active_width(4, 0, 0, 8)
    ([2, 2, 3, 3, 4, 4, 4, 4], 4)
    """
    if not grown_from:
        return d
    return min(d, grown_from + 2 * epoch * (d - grown_from) // epochs)


def _build(d: int, direction: Direction, settings: dict[str, Any]) -> nn.Module:
    options = {name: value for name, value in settings.items() if name != "kind"}
    if settings["kind"] == "plain":
        return PlainBlock(d, **options)
    return ProductBlock(d, direction, **options)


def _pairs(chain: Chain, direction: Direction) -> Pairs:
    seen, exact = chain.forward_pairs() if direction == "forward" else chain.backward_pairs()
    return seen.float(), exact.float()


def _weight_rows(d: int, direction: Direction) -> Tensor:
    """Rows of the backward block that hold the weights: what a roll-out is about."""
    rows = backward_layout(d).index("weight").reshape(-1)
    return rows if direction == "backward" else rows[:0]


@torch.no_grad()
def _written(operator: nn.Module, seen: Tensor) -> Tensor:
    """One column of what an operator writes: their mean, should they differ."""
    columns: Tensor = operator(seen.float())
    return columns.mean(1).to(seen.dtype)


def _distances(students: Students, forward: Operator, backward: Operator) -> dict[str, list[float]]:
    """|W - W_true|^2, added over layers, after every round; and how far the true weights have moved.

    Means are over tame students, whose weights SGD moves by no more than their own norm; medians, and means
    called `all`, over all. Now and then SGD itself explodes, and one such student outweighs a hundred others.
    `wild` is the part of those.
    """
    exact, rolled = exact_chain(students), roll_out(students, forward, backward)
    rounds = range(1, students.n_rounds + 1)

    def squared(one: Tensor, other: Tensor) -> Tensor:
        off = (one - other).square().sum((1, 2, 3))
        # A chain that has overflowed is as far off as can be.
        return torch.where(off.isnan(), math.inf, off)

    off = [squared(exact.weights(r), rolled.weights(r)) for r in rounds]
    moved = [squared(exact.weights(r), students.weights) for r in rounds]
    norm = students.weights.square().sum((1, 2, 3))
    tame = torch.stack([m <= norm for m in moved]).all(0)
    distances: dict[str, list[float]] = {"wild": [float((~tame).double().mean())]}
    for name, rows in (("off", off), ("moved", moved)):
        distances[f"{name}_mean"] = [float(row[tame].mean()) for row in rows]
        distances[f"{name}_median"] = [float(row.median()) for row in rows]
        distances[f"{name}_all"] = [float(row.mean()) for row in rows]
    return distances


def _baselines(train: Pairs, held_out: Pairs, direction: Direction, d: int) -> dict[str, float]:
    """Losses that need no operator: copied rows with means or zeros for the rest, and least squares."""
    seen, exact = (_bordered(train[0]), train[1].double())
    solution = torch.linalg.lstsq(seen, exact, driver="gelsd").solution
    guesses = {f"{direction}, least squares": _bordered(held_out[0]) @ solution}
    if direction == "forward":
        guesses["forward, copies and means"] = _copied_forward(held_out[0], d, train[1].mean(0))
    else:
        guesses["backward, copies and zeros"] = _copied_backward(held_out[0], d)
    off = {name: d * (written - held_out[1]).square() for name, written in guesses.items()}
    losses = {name: float(squared.sum(1).mean()) for name, squared in off.items()}
    if direction == "backward":
        weights = off["backward, copies and zeros"][:, backward_layout(d).slice("weight")]
        losses["weights, copies"] = float(weights.sum(1).mean())
    return losses


def _bordered(seen: Tensor) -> Tensor:
    """With a column of ones, for a constant."""
    return torch.cat([seen, torch.ones_like(seen[:, :1])], 1).double()


def _copied_forward(seen: Tensor, d: int, means: Tensor) -> Tensor:
    """Carried rows copied, others at their mean."""
    F, out = forward_layout(d), exact_forward(seen, d)
    for name in ("output", "slope"):
        out[:, F.slice(name)] = means[F.slice(name)]
    return out


def _copied_backward(seen: Tensor, d: int) -> Tensor:
    """No derivative, no step."""
    B, out = backward_layout(d), exact_backward(seen, d, lr=0.0)
    for name in ("delta", "signal"):
        out[:, B.slice(name)] = 0.0
    return out
