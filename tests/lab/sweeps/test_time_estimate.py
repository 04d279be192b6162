"""Estimates: operations are those counted by hand, costs add up, and no kind of training is timed twice."""

from __future__ import annotations

import math

import pytest
import torch

from icgd.lab.sweeps import time_estimate as module
from icgd.lab.sweeps.cells import Cell, training_cell
from icgd.lab.sweeps.time_estimate import Estimate, duration, estimate
from icgd.lab.training.config import make_config
from icgd.papers.registry import EXPERIMENTS, find_experiment

B, N, D_X, WIDTH, HEADS, HIDDEN = 3, 5, 4, 8, 2, 12


def a_cell(seed: int = 0, steps: int = 1, kind: str = "standard", **model) -> Cell:
    told = {
        "model": {
            "kind": kind,
            "n_layer": 1,
            "n_head": HEADS,
            "n_embd": WIDTH,
            "d_mlp": HIDDEN,
            "n_positions": N,
            **model,
        },
        "task": {"name": "linear_regression", "n_dims": D_X},
        "training": {
            "batch_size": B,
            "n_points": N,
            "train_steps": steps,
            "seed": seed,
            "threads": 1,
        },
    }
    return training_cell({"seed": seed, "steps": steps}, make_config(told), "m:f")


def has_configurations(name: str) -> bool:
    """Whether an experiment trains by the trainer, and not in a loop of its own."""
    return any(cell.config is not None for cell in EXPERIMENTS[name].cells("paper"))


def product(rows: int, inner: int, columns: int) -> int:
    """A multiplication and an addition for every entry of a matrix product."""
    return 2 * rows * inner * columns


def operations_by_hand(attention: str) -> int:
    """One step of one block, product by product: forward once, backward once for each factor that needs it."""
    tokens, asked, d_head = 2 * N - 1, N, WIDTH // HEADS
    targets = product(B * N, D_X, 1)  # prompts are drawn anew in every step
    read_in = product(B * tokens, D_X, WIDTH)
    blocks = (
        product(B * tokens, WIDTH, 3 * WIDTH)  # queries, keys, values of all tokens
        + product(B * asked, WIDTH, WIDTH)  # then only the asked tokens go on
        + product(B * asked, WIDTH, HIDDEN)
        + product(B * asked, HIDDEN, WIDTH)
        + product(B * asked, WIDTH, 1)  # read-out
    )
    scores = B * HEADS * product(tokens, d_head, tokens)  # as many as weights times values
    # Two products forward and four backward; the fused softmax kernel keeps no scores and makes them again.
    attending = (2 + 4 + (attention == "softmax")) * scores
    # Data need no gradient: the read-in has one product backward.
    return targets + 2 * read_in + 3 * blocks + attending


@pytest.mark.parametrize("attention", ["softmax", "relu"])
def test_the_operations_of_a_step_are_those_counted_by_hand(attention):
    assert estimate([a_cell(attention=attention)], 1).flops == operations_by_hand(attention)


def test_loops_cost_as_much_as_they_are_made():
    """Of a looped model only the loops grow: two more loops cost twice what one more does."""
    flops = [estimate([a_cell(kind="looped", loops=t, window=0)], 1).flops for t in (1, 2, 3, 4)]
    # Between loops all tokens are wanted, in the last one the asked ones.
    assert flops[1] > 1.5 * flops[0]
    assert flops[2] - flops[1] == flops[3] - flops[2] > 0


def fixed_cost(monkeypatch, flops=5.0, seconds=2.0) -> list[str]:
    """Every kind of work costs the same per step; the kinds that were asked for."""
    asked: list[str] = []

    def of_training(config, device):
        asked.append(config.to_json())
        return module._Cost(0.0, 0.0, flops, seconds)

    def of_work(cell, device):
        asked.append(cell.work)
        return module._Cost(0.0, 0.0, flops, seconds)

    monkeypatch.setattr(module, "_cost_of_training", of_training)
    monkeypatch.setattr(module, "_cost_of_work", of_work)
    return asked


def test_costs_grow_with_steps_and_trainings(monkeypatch):
    fixed_cost(monkeypatch)
    for steps in (1, 10, 500_000):
        for n in (1, 2, 5):
            made = estimate([a_cell(seed, steps) for seed in range(n)], 1)
            assert (made.trainings, made.steps) == (n, n * steps)
            assert (made.flops, made.seconds) == (5.0 * n * steps, 2.0 * n * steps)


def test_what_is_counted_does_not_depend_on_the_clock():
    one, ten = estimate([a_cell()], 1), estimate([a_cell(steps=10)], 1)
    assert ten.flops == 10 * one.flops
    assert estimate([a_cell(), a_cell(steps=10)], 1).flops == 11 * one.flops


@pytest.mark.parametrize(("workers", "share"), [(1, 1), (2, 2), (3, 3), (64, 3)])
def test_workers_share_the_work_as_far_as_there_are_trainings(monkeypatch, workers, share):
    fixed_cost(monkeypatch)
    made = estimate([a_cell(seed) for seed in range(3)], workers)
    assert made.seconds == pytest.approx(6.0 / share)
    assert (made.flops, made.workers) == (15.0, workers)


def test_a_kind_of_training_is_timed_once_whatever_its_seed_and_steps(monkeypatch):
    asked = fixed_cost(monkeypatch)
    same = [a_cell(seed, steps) for seed in range(4) for steps in (1, 7)]
    estimate([*same, a_cell(attention="relu"), a_cell(5, attention="relu")], 1)
    assert len(asked) == 2


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if has_configurations(name)])
def test_seeds_of_an_experiment_cost_no_time_to_estimate(monkeypatch, name):
    asked = fixed_cost(monkeypatch)
    cells = find_experiment(name).cells("paper")
    made = estimate(cells, 2)
    trained = [cell for cell in cells if cell.config is not None]
    assert made.trainings == len(trained)
    assert made.steps == 500_000 * len(trained)
    kinds = {
        cell.config.model_copy(update={"training": None}).to_json()
        for cell in trained  # model and task: nothing else differs in an experiment
    }
    assert len(asked) == len(kinds) == len(trained) / find_experiment(name).size("paper").seeds


def test_work_without_a_training_costs_no_steps(monkeypatch):
    asked = fixed_cost(monkeypatch)
    made = estimate([Cell({"a": 1}, "m:f", {"n": 3})], 2)
    assert (made.trainings, made.steps, made.flops, made.seconds, asked) == (0, 0, 0.0, 0.0, [])


def multiply(place, *, n: int, steps: int, seed: int, first: int = 0) -> dict[str, float]:
    """Work to be estimated: so many products of two matrices, after some others."""
    for _ in range(first + steps):
        torch.ones(n, n) @ torch.ones(n, n)
    return {"seed": seed}


def multiplying(seed: int, **options: int) -> Cell:
    given = {"n": 3, "steps": 10, "seed": seed, **options}
    return Cell({"seed": seed}, f"{__name__}:multiply", given, effort=("steps",))


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("steps", [1, 10, 1000])
def test_work_of_any_kind_is_known_from_a_little_of_it(steps, first):
    cells = [multiplying(seed, steps=steps, first=first) for seed in range(3)]
    made = estimate(cells, 2)
    assert (made.trainings, made.steps) == (3, 3 * steps)
    assert made.flops == 3 * (first + steps) * product(3, 3, 3)
    assert 0 < made.seconds < math.inf


def test_a_kind_of_work_is_timed_once_whatever_its_seed_and_steps(monkeypatch):
    asked = fixed_cost(monkeypatch)
    estimate([multiplying(seed, steps=s) for seed in range(3) for s in (1, 5)], 1)
    assert len(asked) == 1
    estimate([multiplying(0), multiplying(1, n=4)], 1)
    assert len(asked) == 3


def test_real_steps_are_timed_and_threads_left_as_they_were():
    before = torch.get_num_threads()
    made = estimate([a_cell()], 1)
    assert 0 < made.seconds < math.inf
    assert torch.get_num_threads() == before


def test_an_estimate_is_told_in_a_sentence():
    text = str(Estimate(trainings=18, steps=36_000, flops=1.25e13, seconds=5400.0, workers=2))
    assert text == (
        "18 trainings, 36,000 steps, 1.2e+13 floating-point operations: about 90 min on this machine "
        "with 2 workers"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.01, "1 s"),
        (1.4, "1 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2.0 h"),
        (864000, "10.0 days"),
    ],
)
def test_times_are_told_for_people(seconds, text):
    assert duration(seconds) == text
