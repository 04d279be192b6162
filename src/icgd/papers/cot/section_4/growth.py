"""How errors really grow: runs and rounds that the bookkeeping of [COT] C.9 does not allow for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import torch
from torch import Tensor

from icgd.mechanisms import compile as compile_program
from icgd.papers.cot.section_4.states import (
    block_distance,
    exact_blocks,
    exact_states,
    largest,
    step_accuracies,
)
from icgd.problems import SGD, Network, Weights
from icgd.verification.bounds.cot_rounds import StepErrors, paper_bound, round_error


@dataclass(frozen=True)
class Growth:
    """A run beside the printed bound l eps_round, at the round where it is exceeded most.

    eps_round    from the errors that the steps make at the states of this run
    eps_uniform  from the errors they make at most anywhere in the range, as the paper's eps are meant
    errors       of every round
    losses       of exact SGD, round by round
    """

    round: int
    errors: list[float]
    eps_round: float
    eps_uniform: float
    losses: list[float]

    @property
    def error(self) -> float:
        """Of the round that exceeds the bound most."""
        return self.errors[self.round - 1]

    @property
    def printed(self) -> float:
        """l eps_round."""
        return paper_bound(self.round, self.eps_round)

    @property
    def printed_uniform(self) -> float:
        """l eps_round with accuracies that hold for all blocks in range."""
        return paper_bound(self.round, self.eps_uniform)


def uniform_round_error(n_layers: int, n_grid: int, radius: float) -> float:
    """eps_round of scalar layers when eps is what a step is off by at most, whatever the block.

    Statement: [COT] Proposition 4.4

    Every product of a step has one factor read off the grid, wrong by at most half a spacing, and
    another of size at most the radius; a learning rate up to 1 makes nothing larger. Not counted is the
    slope at a kink, where no layer has an accuracy.

    Differs from the paper: it asks for such an eps and does not say how large it is.

    >>> round(24 * uniform_round_error(2, 4000, 2.0), 3)
    0.096
    """
    eps = radius * (2 * radius / (n_grid - 1)) / 2
    return round_error(n_layers, StepErrors(eps, eps, eps, eps))


def saddle_growth(
    n_grid: int = 4000, n_rounds: int = 24, lr: float = 0.4, *, exact_heads: bool = False
) -> Growth:
    """Two scalar layers leaving the saddle at 0, under a layer that reads nearest levels.

    The weights start well inside one grid spacing. A round multiplies small differences by 1 + lr,
    so reading errors grow geometrically while SGD itself descends in every round.

    exact_heads  the same run by a layer of kernel heads, exact to rounding
    """
    network, radius = Network((1, 1, 1), output="relu", bias=False), 2.0
    heads: dict[str, Any] = {} if exact_heads else {"temperature": "hard", "n_grid": n_grid}
    program = compile_program(network, SGD(lr=lr), radius=radius, **heads)
    small = torch.full((1, 1), 0.05 * 2 * radius / (n_grid - 1), dtype=torch.float64)
    x = y = torch.ones(1, dtype=torch.float64)
    weights: Weights = [(small, None), (small, None)]
    ones = torch.ones(n_rounds, 1, dtype=torch.float64)
    trace = program.run(ones, ones, init=weights, record="trace").trace
    n_steps = len(program.mask.steps())
    exact, eps, errors, losses = weights, 0.0, [], []
    for start in range(0, len(trace), n_steps):
        # Step accuracies at the transformer's own state, errors against exact SGD from the start.
        eps = max(eps, round_error(2, step_accuracies(program, weights, x, y)))
        states = exact_states(network.spec, exact, x, y, lr)
        losses.append(float(0.5 * (states[-1].out - y).square().sum()))
        wanted = exact_blocks(states, x, y)[1]
        blocks = {e.step.writes: e.block for e in trace[start : start + n_steps]}
        errors.append(largest(block_distance(blocks[("B", i)], wanted[("B", i)]) for i in (1, 2)))
        exact = [s.new for s in states]
        weights = [(blocks[("B", i)].slots["weight"], None) for i in (1, 2)]
    worst = max(range(n_rounds), key=lambda i: errors[i] / (i + 1))
    uniform = uniform_round_error(2, n_grid, radius)
    return Growth(worst + 1, errors, eps, uniform, losses)


class HardGrid(TypedDict):
    """The grid of a layer that reads nearest levels."""

    n_grid: int
    radius: float


AMPLIFIED: HardGrid = {"n_grid": 2000, "radius": 16.0}
"""The layer of `amplified_round`."""


def amplified_round(weight: float = 4.0, n_layers: int = 3) -> tuple[float, float]:
    """Error of one round from the same state, and eps_round from its steps' true accuracies."""
    network = Network((1,) * (n_layers + 1), output="relu", bias=False)
    lr = 0.01
    program = compile_program(network, SGD(lr=lr), temperature="hard", **AMPLIFIED)
    weights: Weights = [(torch.full((1, 1), weight, dtype=torch.float64), None)] * n_layers
    x = torch.tensor([0.9 * weight ** (1 - n_layers)], dtype=torch.float64)
    y = torch.tensor([0.9 * weight - 0.01], dtype=torch.float64)
    eps = round_error(n_layers, step_accuracies(program, weights, x, y))
    wanted = exact_blocks(exact_states(network.spec, weights, x, y, lr), x, y)[1]
    trace = program.run(x.unsqueeze(0), y.unsqueeze(0), init=weights, record="trace").trace
    errors = [
        block_distance(e.block, wanted[e.step.writes]) for e in trace if e.step.writes[0] == "B"
    ]
    return largest(errors), eps


def expanding_pair() -> tuple[Network, Weights, Weights, Tensor, Tensor]:
    """Two states near the saddle of two scalar layers, which a round drives apart by about 1 + lr."""
    network = Network((1, 1, 1), output="relu", bias=False)
    a, b = (torch.full((1, 1), w, dtype=torch.float64) for w in (2.0**-10, 2.0**-10 + 2.0**-14))
    one = torch.ones(1, dtype=torch.float64)
    return network, [(a, None), (a, None)], [(b, None), (b, None)], one, one
