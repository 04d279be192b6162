"""A score learned in context by compiled programs, beside direct training from the same weights and data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

import icgd
from icgd.lab.sweeps.cells import Workplace
from icgd.oracle.network_gd import network_gd_steps
from icgd.oracle.sgd import sgd_rounds, torch_network
from icgd.papers.deep.appendix_h.diffusion import (
    F64,
    draw_mixture,
    exact_score,
    noised,
    sample_backwards,
    score_examples,
    score_of,
)
from icgd.papers.deep.appendix_h.energy_distance import energy_distance
from icgd.papers.deep.appendix_h.statements import T_0, r_squared
from icgd.problems import Weights

STACK, COT = "stack", "chain of thought"
IN_CONTEXT, DIRECT = "in context", "direct"
EXACT, TRUTH = "exact score", "another true sample"
RADIUS = 24.0
"""Range of pre-activations in which a stack's functions are fitted: samples stray further than examples."""
RAMP = 2.0**-36
"""Width of the ramp that stands for the step of ReLU: no unit meets it in a million steps."""
FEW = 10
"""Points that are enough where nothing is learned."""
N_LOOKS = 8
"""Times in a training at which R2 is looked at."""
# Every purpose has numbers of its own.
DATA, START, TEST, TRUE, SAMPLER, EARLIEST = range(6)
NAIVE = "naive"


def learn(
    place: Workplace,
    *,
    how: str,
    activation: str,
    target: str,
    width: int,
    hidden: int,
    steps: int,
    lr: float,
    examples: int,
    early: float,
    fresh: int,
    samples: int,
    sampler_steps: int,
    points: int,
    seed: int,
    n_relu: int = 0,
) -> dict[str, Any]:
    """Train in context and directly, then sample with what either has learned.

    how       "stack": steps of gradient descent on all examples; "chain of thought": a step for every example,
              each seen once, so that there are as many as steps
    target    what examples show: the score, or the noise that denoising score matching learns it from
    hidden    hidden layers of the network
    n_relu    units of each function that a stack fits
    fresh     points on which R2 is measured
    samples   of either sampler
    points    samples that are kept for the picture
    """
    torch.set_num_threads(1)
    if place.only_cost:
        fresh, samples = min(fresh, FEW), min(samples, FEW)
    widths = (4, *(width,) * hidden, 2)
    net = icgd.Network(widths, activation, output="linear", bias=False)
    init = initial_weights(widths, source_of(seed, START))
    inputs, targets = score_examples(
        steps if how == COT else examples, source_of(seed, DATA), early, target
    )
    looks = look_steps(steps)
    program, paths = _paths(how, net, init, (inputs, targets), lr, n_relu, looks)
    test_inputs, test_targets = score_examples(fresh, source_of(seed, TEST))
    networks: dict[str, Callable[[Weights], Callable[[Tensor], Tensor]]] = {
        IN_CONTEXT: lambda weights: lambda x: program.predict(x, weights),
        DIRECT: lambda weights: torch_network(net.spec, weights),
    }
    r2, sampled = {}, {}
    with torch.no_grad():
        for name, network in networks.items():
            r2[name] = [
                r_squared(network(weights)(test_inputs), test_targets)
                for weights in paths[name].values()
            ]
            score = score_of(network(paths[name][steps]))
            sampled[name] = sample_backwards(
                score, samples, sampler_steps, source_of(seed, SAMPLER)
            )
    return {
        "steps": looks,
        "r2": r2,
        "apart": [largest_difference(paths[IN_CONTEXT][s], paths[DIRECT][s]) for s in looks],
        **_judged(sampled, samples, seed, points),
    }


def sample_exactly(
    place: Workplace, *, samples: int, sampler_steps: int, points: int, seed: int
) -> dict[str, Any]:
    """Samples by the exact score, and a second true sample: what no network can be asked to beat."""
    torch.set_num_threads(1)
    source = source_of(seed, TRUE)
    draw_mixture(samples, source)  # the sample that all are held against
    sampled = {
        TRUTH: draw_mixture(samples, source),
        EXACT: sample_backwards(exact_score, samples, sampler_steps, source_of(seed, SAMPLER)),
    }
    return _judged(sampled, samples, seed, points)


def naive_scores(
    place: Workplace, *, examples: int, early: float, fresh: int, seed: int
) -> dict[str, Any]:
    """R2 of the mean score and of least squares, fitted on a network's examples, on fresh points."""
    torch.set_num_threads(1)
    inputs, targets = score_examples(examples, source_of(seed, DATA), early)
    test_inputs, test_targets = score_examples(fresh, source_of(seed, TEST))
    linear = torch.linalg.lstsq(inputs, targets).solution
    guesses = {
        "constant": targets.mean(0).expand_as(test_targets),
        "least squares": test_inputs @ linear,
    }
    return {"r2": {name: r_squared(guess, test_targets) for name, guess in guesses.items()}}


def _judged(sampled: Mapping[str, Tensor], samples: int, seed: int, points: int) -> dict[str, Any]:
    """Energy distances to a true sample of the mixture, and of where the sampler ends; a few points of each."""
    truth = draw_mixture(samples, source_of(seed, TRUE))
    source = source_of(seed, EARLIEST)
    end = torch.full((samples,), T_0, dtype=F64)
    earliest, _ = noised(draw_mixture(samples, source), end, source)
    return {
        "error": {name: [energy_distance(sample, truth)] for name, sample in sampled.items()},
        "at_end": {name: [energy_distance(sample, earliest)] for name, sample in sampled.items()},
        "points": {name: sample[:points].tolist() for name, sample in sampled.items()},
    }


def _paths(
    how: str,
    net: icgd.Network,
    init: Weights,
    data: tuple[Tensor, Tensor],
    lr: float,
    n_relu: int,
    looks: Sequence[int],
) -> tuple[icgd.Program, dict[str, dict[int, Weights]]]:
    """The compiled program, and the weights at every look, in context and directly."""
    kept: dict[int, Weights] = {}

    def keep(step: int, weights: Weights) -> None:
        if step in looks:
            kept[step] = [(W.clone(), b) for W, b in weights]

    if how == STACK:
        program = icgd.compile(
            net, icgd.GD(lr=lr), method="stack", n_relu=n_relu, radius=RADIUS, ramp=RAMP
        )
        program.run(*data, init=init, steps=looks[-1], record=keep)
        exact = network_gd_steps(net.spec, init, *data, lr)
    else:
        program = icgd.compile(net, icgd.SGD(lr=lr))
        program.run(*data, init=init, epochs=1, record=keep)
        exact = sgd_rounds(net.spec, init, *data, lr)
    return program, {IN_CONTEXT: kept, DIRECT: _at(exact, looks)}


def _at(path: Iterator[Weights], looks: Sequence[int]) -> dict[int, Weights]:
    """The weights after some of the steps."""
    steps = zip(range(1, looks[-1] + 1), path, strict=False)
    return {step: weights for step, weights in steps if step in looks}


def initial_weights(widths: Sequence[int], source: torch.Generator) -> Weights:
    """W ~ N(0, 1 / width_in), no bias."""
    return [
        (torch.randn(after, before, generator=source, dtype=F64) / math.sqrt(before), None)
        for before, after in pairwise(widths)
    ]


def look_steps(steps: int) -> list[int]:
    """Steps at which a training is looked at, evenly on a logarithmic scale; the last is the end.

    >>> look_steps(8000)
    [62, 125, 250, 500, 1000, 2000, 4000, 8000]
    """
    return sorted({max(1, steps >> k) for k in range(N_LOOKS)})


def largest_difference(one: Weights, other: Weights) -> float:
    """Of any two weights in the same place."""
    return max(float((W - V).abs().max()) for (W, _), (V, _) in zip(one, other, strict=True))


def source_of(seed: int, purpose: int) -> torch.Generator:
    """Random numbers of one seed for one purpose."""
    return torch.Generator().manual_seed(1000 * seed + purpose)
