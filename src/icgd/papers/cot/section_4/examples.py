"""What the checkers of [COT] share: a small network, its compiled layer, probes and their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from icgd.mechanisms import compile as compile_program
from icgd.papers.cot.section_4.states import LayerState, exact_states
from icgd.problems import SGD, Network, Weights
from icgd.transformer.program import Program
from icgd.verification.cot_network import Check
from icgd.verification.cot_network import verify_network as verify
from icgd.verification.probes.cot_network import ProbeResult, run_probes

LR = 0.1


@dataclass(frozen=True)
class Example:
    """A small network with weights and data under which every layer learns."""

    network: Network
    weights: Weights
    X: Tensor
    Y: Tensor

    @property
    def states(self) -> list[LayerState]:
        """One exact round on the first example."""
        return exact_states(self.network.spec, self.weights, self.X[0], self.Y[0], LR)


@cache
def example(d: int = 3, n_layers: int = 3, n_rounds: int = 3, seed: int = 0) -> Example:
    """Square layers, no bias, ReLU everywhere: the network of Section 4.

    Weights and inputs are mostly positive, so that enough units stay open for gradients to flow.
    """
    network = Network((d,) * (n_layers + 1), output="relu", bias=False)
    generator = torch.Generator().manual_seed(seed)
    shift = 0.3 / d
    weights: Weights = [(0.5 * W + shift, None) for W, _ in network.init(seed=seed)]
    X = torch.rand(n_rounds, d, generator=generator, dtype=torch.float64) + 0.2
    Y = torch.rand(n_rounds, d, generator=generator, dtype=torch.float64)
    return Example(network, weights, X, Y)


@cache
def program_for(network: Network) -> Program:
    """The compiled layer that the corrected forms are measured on."""
    return compile_program(network, SGD(lr=LR), radius=16.0)


@cache
def probe_results() -> list[ProbeResult]:
    """Single steps of every kind on both executors, every slot filled, queries up to the radius."""
    networks = (Network((3, 3, 3), output="relu", bias=False), Network((4, 2, 3)))
    return [r for i, net in enumerate(networks) for r in run_probes(program_for(net), seed=i)]


def worst_probe(*kinds: str) -> tuple[float, float, bool]:
    """Largest error of single steps of these kinds, its bound, and whether all kept theirs."""
    results = [r for r in probe_results() if r.kind in kinds]
    worst = max(results, key=lambda r: (not r.passed, r.error))
    return worst.error, worst.bound, all(r.passed for r in results)


@cache
def checked_example() -> Check:
    """The whole example run on the compiled layer and held against exact SGD."""
    case = example()
    return verify(program_for(case.network), case.X, case.Y, init=case.weights)
