"""Weights of networks with and without biases: distances, copies, batches."""

from __future__ import annotations

import math

import pytest
import torch

from icgd.verification.verdict.judgement import Sight
from icgd.verification.verdict.round_record import RoundRecord, worst_record
from icgd.verification.weight_arithmetic import (
    all_within,
    clone,
    distance,
    euclidean,
    largest,
    of_problem,
    together,
    worst,
)

biased = pytest.mark.parametrize("bias", [True, False])


def weights(seed, bias, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g, dtype=dtype)

    return [
        (normal(3, 2), normal(3) if bias else None),
        (normal(1, 3), normal(1) if bias else None),
    ]


def flat(made):
    return torch.cat([p.reshape(-1) for pair in made for p in pair if p is not None])


@biased
def test_distances_are_those_of_all_entries(bias):
    a, b = weights(0, bias), weights(1, bias)
    gap = flat(a) - flat(b)
    assert distance(a, b) == float(gap.abs().max())
    assert euclidean(a, b) == pytest.approx(float(gap.norm()), rel=1e-14)
    assert largest(a) == float(flat(a).abs().max())
    assert distance(a, a) == euclidean(a, a) == 0.0


def test_the_bias_counts():
    a = weights(0, True)
    b = clone(a)
    b[1][1].add_(5.0)
    assert distance(a, b) == pytest.approx(5.0)


def test_numbers_are_compared_in_double_precision():
    a, b = weights(0, True, torch.float32), weights(0, True)
    b = [(W + 1e-12, c) for W, c in b]
    single = [(W.float(), c.float()) for W, c in b]
    assert 0 < distance(single, b) < 1e-6
    assert distance(a, a) == 0.0


@biased
def test_bounds_hold_entry_by_entry(bias):
    a, b = weights(0, bias), weights(1, bias)
    gap = [
        ((W - V).abs(), None if c is None else (c - d).abs())
        for (W, c), (V, d) in zip(a, b, strict=True)
    ]
    assert all_within(a, b, gap)
    gap[0][0][1, 1] *= 0.99
    assert not all_within(a, b, gap)


def test_nan_is_the_worst_of_all():
    a = weights(0, True)
    b = clone(a)
    b[0][1][2] = math.nan
    assert math.isnan(distance(a, b))
    assert math.isnan(largest(b))
    assert not all_within(a, b, [(torch.full_like(W, 9.0), torch.full_like(c, 9.0)) for W, c in a])
    assert math.isnan(worst(iter([0.0, math.nan, 7.0])))
    assert worst([]) == 0.0
    assert worst([-2.0, -1.0]) == -1.0


@biased
def test_a_batch_is_taken_apart_and_put_together(bias):
    many = [weights(seed, bias) for seed in range(3)]
    batch = together(many)
    assert batch[0][0].shape == (3, 3, 2)
    assert (batch[0][1] is not None) == bias
    for i, one in enumerate(many):
        assert distance(of_problem(batch, i), one) == 0.0


@biased
def test_copies_do_not_follow(bias):
    a, batch = weights(0, bias), together([weights(seed, bias) for seed in range(2)])
    copies = clone(a), of_problem(batch, 1)
    before = [flat(made).clone() for made in copies]
    for pair in (*a, *batch):
        for part in pair:
            if part is not None:
                part.zero_()
    for made, kept in zip(copies, before, strict=True):
        assert torch.equal(flat(made), kept)


def test_the_worst_of_several_problems():
    one = RoundRecord(4, 1.0, 2.0, math.nan, 4.0, 5.0, 1, 0.5, Sight((0.1, 0.2), (False, False)))
    two = RoundRecord(4, 3.0, 0.0, 1.0, 6.0, 0.0, 2, 0.2, Sight((0.05, 2.0), (False, True)))
    found = worst_record([one, two])
    assert (found.round, found.error, found.round_error) == (4, 3.0, 2.0)
    assert math.isnan(found.round_bound)
    assert (found.global_bound, found.paper_bound, found.near_kink) == (6.0, 5.0, 3)
    assert (found.update, found.sight) == (0.2, Sight((0.1, 2.0), (False, True)))
