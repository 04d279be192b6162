"""Scores in context: oracle, sampler and distance against other ways to them, programs against autograd."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from scipy.spatial.distance import cdist, pdist
from sklearn.metrics import r2_score
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from icgd.errors import InvalidParameter
from icgd.lab.sweeps.cells import Workplace
from icgd.papers.deep.appendix_h.diffusion import (
    F64,
    NOISE,
    SCORE,
    TARGET_SCALE,
    draw_mixture,
    exact_score,
    network_inputs,
    noised,
    sample_backwards,
    score_examples,
    score_of,
)
from icgd.papers.deep.appendix_h.energy_distance import energy_distance
from icgd.papers.deep.appendix_h.learning import (
    COT,
    DIRECT,
    EXACT,
    IN_CONTEXT,
    STACK,
    TRUTH,
    learn,
    look_steps,
    sample_exactly,
    source_of,
)
from icgd.papers.deep.appendix_h.statements import CENTRES, SPREAD, T_0, T_1, r_squared

HERE = Workplace(Path())


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def law_at(t: float) -> MixtureSameFamily:
    """The mixture after time t, as torch has it."""
    a = math.exp(-t / 2)
    means = a * torch.tensor(CENTRES, dtype=F64)
    deviation = torch.full_like(means, math.sqrt(1 - a * a + (a * SPREAD) ** 2))
    each = Independent(Normal(means, deviation), 1)
    return MixtureSameFamily(Categorical(torch.ones(len(CENTRES), dtype=F64)), each)


# -- oracle and process ----------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [T_0, 0.6, T_1])
def test_the_score_is_the_slope_of_the_log_density(t):
    x = (2 * torch.randn(50, 2, generator=source(), dtype=F64)).requires_grad_(True)
    (slope,) = torch.autograd.grad(law_at(t).log_prob(x).sum(), x)
    torch.testing.assert_close(exact_score(x.detach(), torch.full((50,), t, dtype=F64)), slope)


def test_noised_points_have_the_law_of_their_time():
    n, t = 20_000, 0.7
    x, _ = noised(draw_mixture(n, source()), torch.full((n,), t, dtype=F64), source(1))
    law = law_at(t)
    assert (x.mean(0) - law.mean).abs().max() < 5 * float(law.stddev.max()) / math.sqrt(n)
    torch.testing.assert_close(x.var(0), law.variance, rtol=0.05, atol=0)


def test_examples_are_inputs_and_a_quarter_of_the_score():
    inputs, targets = score_examples(30, source())
    x, t = 3 * inputs[:, :2], T_1 * (inputs[:, 2] + 0.5)
    assert (inputs[:, 3] == 0.5).all()
    assert (t >= T_0).all()
    assert (t <= T_1).all()
    torch.testing.assert_close(TARGET_SCALE * targets, exact_score(x, t))
    torch.testing.assert_close(score_of(lambda i: i[:, :2])(x, t), TARGET_SCALE * x / 3)
    torch.testing.assert_close(network_inputs(x, t), inputs)


@pytest.mark.parametrize("t", [T_0, 0.6, T_1])
def test_the_mean_of_the_noise_is_the_score(t):
    """Over many points whose noised places are alike: what denoising score matching rests on."""
    n = 200_000
    times = torch.full((n,), t, dtype=F64)
    x, noise = noised(draw_mixture(n, source()), times, source(1))
    exact = exact_score(x, times)
    off = noise - exact
    # Nothing that is a function of the place is left in the difference.
    for seen in (torch.ones_like(x), x, exact, x.tanh()):
        each = off * seen
        assert (each.mean(0).abs() < 5 * each.std(0) / math.sqrt(n)).all()
    inputs, targets = score_examples(30, source(), target=NOISE)
    again, scores = score_examples(30, source())
    torch.testing.assert_close(inputs, again)
    assert (targets - scores).abs().min() > 0


def test_early_times_are_seen_more_often():
    """u^2 is below a quarter half of the time."""
    even, early = (score_examples(4000, source(), p)[0][:, 2] for p in (1.0, 2.0))
    quarter = (T_0 + (T_1 - T_0) / 4) / T_1 - 0.5
    assert float((even < quarter).double().mean()) == pytest.approx(0.25, abs=0.03)
    assert float((early < quarter).double().mean()) == pytest.approx(0.5, abs=0.03)


# -- sampler ---------------------------------------------------------------------------------------------


def test_the_exact_score_leads_back_to_the_law_of_the_earliest_time():
    n = 3000
    made = sample_backwards(exact_score, n, 80, source(3))
    law = law_at(T_0)
    assert (made.mean(0) - law.mean).abs().max() < 0.1
    torch.testing.assert_close(made.var(0), law.variance, rtol=0.1, atol=0)
    there, _ = noised(draw_mixture(n, source()), torch.full((n,), T_0, dtype=F64), source(1))
    normal = torch.randn(n, 2, generator=source(2), dtype=F64)
    distance = energy_distance(made, there)
    assert distance < 0.004 < 0.02 < energy_distance(normal, there)


def test_without_a_score_nothing_comes_of_it():
    still = sample_backwards(lambda x, t: torch.zeros_like(x), 2000, 40, source(3))
    truth = draw_mixture(2000, source())
    good = sample_backwards(exact_score, 2000, 40, source(3))
    assert energy_distance(still, truth) > 20 * energy_distance(good, truth)


def test_all_scores_get_the_same_noise():
    one, again = (sample_backwards(exact_score, 20, 5, source_of(1, 4)) for _ in range(2))
    other = sample_backwards(exact_score, 20, 5, source_of(2, 4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


# -- distance --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m", "d"), [(2, 2, 1), (7, 5, 2), (1500, 30, 3)])
def test_the_energy_distance_is_scipys_pair_by_pair(n, m, d):
    x = torch.randn(n, d, generator=source(), dtype=F64)
    y = 0.5 + torch.randn(m, d, generator=source(1), dtype=F64)
    expected = 2 * cdist(x, y).mean() - pdist(x).mean() - pdist(y).mean()
    assert energy_distance(x, y) == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_it_is_zero_on_average_for_one_law():
    values = torch.tensor(
        [
            energy_distance(draw_mixture(40, source(2 * k)), draw_mixture(40, source(2 * k + 1)))
            for k in range(300)
        ]
    )
    assert (values < 0).any()
    assert abs(float(values.mean())) < 4 * float(values.std()) / math.sqrt(300)


def test_it_is_the_known_one_for_two_normals():
    """E|N(m, 2)| is that of a folded normal."""

    def mean_size(m: float) -> float:
        s = math.sqrt(2)
        return s * math.sqrt(2 / math.pi) * math.exp(-m * m / (2 * s * s)) + m * math.erf(m / 2)

    x = torch.randn(6000, 1, generator=source(), dtype=F64)
    y = 1 + torch.randn(6000, 1, generator=source(1), dtype=F64)
    assert energy_distance(x, y) == pytest.approx(2 * (mean_size(1) - mean_size(0)), rel=0.1)


def test_a_point_alone_has_no_distance():
    with pytest.raises(InvalidParameter, match="at least two points"):
        energy_distance(torch.zeros(1, 2), torch.zeros(3, 2))


# -- in context and directly -----------------------------------------------------------------------------


def small(place=HERE, **changed):
    told = {
        "how": STACK,
        "activation": "gelu",
        "target": SCORE,
        "width": 4,
        "hidden": 2,
        "steps": 12,
        "lr": 0.5,
        "examples": 10,
        "early": 2.0,
        "n_relu": 65,
        "fresh": 60,
        "samples": 30,
        "sampler_steps": 5,
        "points": 3,
        "seed": 0,
    }
    return learn(place, **{**told, **changed})


@pytest.mark.parametrize("how", [STACK, COT])
def test_relu_networks_are_trained_in_context_to_rounding(how):
    row = small(how=how, activation="relu", lr=0.1)
    assert max(row["apart"]) < 1e-13
    assert row["r2"][IN_CONTEXT] == pytest.approx(row["r2"][DIRECT], abs=1e-10)
    assert row["error"][IN_CONTEXT] == pytest.approx(row["error"][DIRECT], abs=1e-10)
    assert row["points"][IN_CONTEXT][2] == pytest.approx(row["points"][DIRECT][2], abs=1e-10)


def test_smooth_networks_come_closer_with_more_units():
    coarse, fine = (small(n_relu=n)["apart"][-1] for n in (17, 129))
    assert 0 < fine < coarse / 10
    assert coarse < 0.05


def test_a_training_learns_and_every_look_is_at_its_own_step():
    row = small(steps=40, lr=1.0)
    assert row["steps"] == look_steps(40) == [1, 2, 5, 10, 20, 40]
    assert len(row["r2"][DIRECT]) == len(row["apart"]) == 6
    assert row["r2"][DIRECT][-1] > row["r2"][DIRECT][0]
    shorter = small(steps=20, lr=1.0)
    assert shorter["r2"][DIRECT][-1] == row["r2"][DIRECT][-2]


def test_a_trial_of_what_steps_cost_is_not_measured_in_full():
    """It must not take as long as the sampler; all others are, however short."""
    trial = Workplace(Path(), only_cost=True)
    row = small(trial, steps=3, samples=10**9, fresh=10**9, points=99)
    assert len(row["points"][IN_CONTEXT]) == 10
    assert len(small(steps=3, sampler_steps=5, points=99)["points"][IN_CONTEXT]) == 30


def test_seeds_have_their_own_data_and_weights():
    assert small()["r2"] != small(seed=1)["r2"]


def test_r2_is_sklearns_over_both_outputs():
    made, exact = (torch.randn(40, 2, generator=source(k), dtype=F64) for k in (0, 1))
    expected = r2_score(exact, made, multioutput="variance_weighted")
    assert r_squared(made, exact) == pytest.approx(expected)


def test_all_samples_are_held_against_one_true_sample():
    """A second true sample is another one, at distance 0 on average."""
    row = sample_exactly(HERE, samples=400, sampler_steps=30, points=2, seed=0)
    truth = draw_mixture(400, source_of(0, 3))
    assert row["points"][TRUTH] != truth[:2].tolist()
    assert abs(row["error"][TRUTH][0]) < 0.02
    made = sample_backwards(exact_score, 400, 30, source_of(0, 4))
    assert row["error"][EXACT] == [pytest.approx(energy_distance(made, truth))]
