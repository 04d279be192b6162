"""How errors really grow: runs and rounds that the bookkeeping of [COT] C.9 does not allow for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.constructions import compile as compile_program
from icgd.problems import SGD, Network, Weights
from icgd.theory.cot import paper_bound, round_error
from icgd.verification.cot_states import (
    block_distance,
    exact_blocks,
    exact_states,
    largest,
    step_accuracies,
)


@dataclass(frozen=True)
class Growth:
    """A run beside the printed bound l eps_round, at the round where it is exceeded most.

    losses   of exact SGD, round by round
    """

    round: int
    error: float
    eps_round: float
    losses: list[float]

    @property
    def printed(self) -> float:
        """l eps_round."""
        return paper_bound(self.round, self.eps_round)


def saddle_growth(n_grid: int = 4000, n_rounds: int = 24, lr: float = 0.4) -> Growth:
    """Two scalar layers leaving the saddle at 0, under a layer that reads nearest levels.

    The weights start well inside one grid spacing. A round multiplies small differences by 1 + lr,
    so reading errors grow geometrically while SGD itself descends in every round.
    """
    network = Network((1, 1, 1), output="relu", bias=False)
    program = compile_program(network, SGD(lr=lr), temperature="hard", n_grid=n_grid, radius=2.0)
    small = torch.full((1, 1), 0.05 * 4.0 / (n_grid - 1), dtype=torch.float64)
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
    return Growth(worst + 1, errors[worst], eps, losses)


def amplified_round(weight: float = 4.0, n_layers: int = 3) -> tuple[float, float]:
    """Error of one round from the same state, and eps_round from its steps' true accuracies."""
    network = Network((1,) * (n_layers + 1), output="relu", bias=False)
    lr = 0.01
    program = compile_program(network, SGD(lr=lr), temperature="hard", n_grid=2000, radius=16.0)
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
