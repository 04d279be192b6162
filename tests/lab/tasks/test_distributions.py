"""Moments, supports and determinism of the distributions; their names in configurations."""

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch
from pydantic import TypeAdapter, ValidationError

from icgd.errors import InvalidParameter
from icgd.lab.tasks.distributions import (
    AnyVectors,
    Gaussian,
    Mixture,
    Sparse,
    Sphere,
    StudentT,
    Uniform,
    two_gaussians,
)

N = 20_000
ANY = TypeAdapter(AnyVectors)
ALL = [
    Gaussian(0.5, 2.0),
    Uniform(-1.0, 3.0),
    Sphere(),
    Sparse(2),
    StudentT(5.0),
    two_gaussians(0.9, 0.1),
]


def draw(distribution, shape, seed=0, dtype=torch.float64):
    return distribution.draw(shape, torch.Generator().manual_seed(seed), dtype)


def assert_moments(x, mean, variance, fourth):
    """Sample mean and variance of independent numbers within 5 sigma of what they should be."""
    assert abs(x.mean() - mean) < 5 * math.sqrt(variance / x.numel())
    spread = math.sqrt(max(fourth - variance**2, 1e-12) / x.numel())
    assert abs((x - mean).square().mean() - variance) < 5 * spread


@pytest.mark.parametrize("distribution", ALL, ids=lambda d: d.kind)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_seed_means_one_draw(distribution, dtype):
    first, second = (draw(distribution, (3, 4, 5), 7, dtype) for _ in range(2))
    assert first.dtype == dtype
    assert first.shape == (3, 4, 5)
    assert torch.equal(first, second)
    assert not torch.equal(first, draw(distribution, (3, 4, 5), 8, dtype))


@pytest.mark.parametrize("distribution", ALL, ids=lambda d: d.kind)
def test_one_coordinate(distribution):
    assert draw(distribution, (6, 1)).shape == (6, 1)
    assert draw(distribution, (6, 1)).isfinite().all()


@pytest.mark.parametrize("seed", [0, 1])
def test_moments(seed):
    assert_moments(draw(Gaussian(0.5, 2.0), (N, 1), seed), 0.5, 4.0, 48.0)
    assert_moments(draw(Uniform(-1.0, 3.0), (N, 1), seed), 1.0, 16 / 12, 2**4 / 5)
    law = scipy.stats.t(df=12)
    assert_moments(draw(StudentT(12.0, 3.0), (N, 1), seed), 0.0, 9 * law.var(), 81 * law.moment(4))


def test_student_t_is_student_t():
    drawn = draw(StudentT(3.0), (N,)).numpy()
    assert scipy.stats.kstest(drawn, scipy.stats.t(df=3).cdf).pvalue > 1e-4


@pytest.mark.parametrize("seed", [0, 1])
def test_a_skewed_covariance(seed):
    x = draw(Gaussian(decay=1.0, scales=(1.0, 2.0, 3.0, 9.0)), (N, 3), seed)
    for i, deviation in enumerate((1.0, 2.0 / 2, 3.0 / 3)):
        assert_moments(x[:, i], 0.0, deviation**2, 3 * deviation**4)
    y = draw(Gaussian(std=2.0, decay=0.5), (N, 4), seed)
    assert_moments(y[:, 3], 0.0, 1.0, 3.0)


def test_spheres_have_their_radius():
    assert torch.allclose(draw(Sphere(), (50, 9)).norm(dim=-1), torch.tensor(3.0).double())
    assert torch.allclose(draw(Sphere(2.5), (50, 4)).norm(dim=-1), torch.tensor(2.5).double())


@pytest.mark.parametrize(("k", "d"), [(3, 10), (1, 4), (5, 3)])
def test_sparse_vectors(k, d):
    x = draw(Sparse(k), (4000, d))
    assert ((x != 0).sum(-1) == min(k, d)).all()
    share = min(k, d) / d
    off = ((x != 0).double().mean(0) - share).abs()
    assert (off <= 5 * math.sqrt(share * (1 - share) / 4000)).all()
    assert abs(x[x != 0].square().mean() - 1) < 5 * math.sqrt(2 / (x != 0).sum())


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_mixture_mixes_whole_vectors(weight):
    x = draw(two_gaussians(1 - weight, weight, at=20.0), (N, 3))
    side = x > 0
    assert (side.all(-1) | ~side.any(-1)).all()
    assert abs(side[:, 0].double().mean() - weight) <= 5 * math.sqrt(weight * (1 - weight) / N)


def test_mixtures_of_mixtures():
    inner = Mixture((Gaussian(std=0.0), Gaussian(1.0, 0.0)), (0.5, 0.5))
    x = draw(Mixture((inner, Gaussian(2.0, 0.0)), (0.5, 0.5)), (N, 1))
    for value, share in ((0.0, 0.25), (1.0, 0.25), (2.0, 0.5)):
        assert abs((x == value).double().mean() - share) < 5 * math.sqrt(share * (1 - share) / N)


@pytest.mark.parametrize("distribution", ALL, ids=lambda d: d.kind)
def test_configurations_name_them_and_give_them_back(distribution):
    plain = ANY.dump_python(distribution, mode="json")
    assert plain["kind"] == distribution.kind
    assert ANY.validate_python(plain) == distribution


def test_a_name_is_enough():
    assert ANY.validate_python("gaussian") == Gaussian()
    mixed = {"kind": "mixture", "components": ["gaussian", "sphere"], "weights": [0.5, 0.5]}
    assert ANY.validate_python(mixed) == Mixture((Gaussian(), Sphere()), (0.5, 0.5))


@pytest.mark.parametrize(
    "bad",
    [
        "gausian",
        {"kind": "gaussian", "men": 1.0},
        {"kind": "gaussian", "std": -1.0},
        {"kind": "mixture", "components": ["gaussian"], "weights": [0.5]},
    ],
)
def test_bad_configurations(bad):
    with pytest.raises(ValidationError):
        ANY.validate_python(bad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(std=-1.0), "`std` must be a finite number >= 0. Got -1.0"),
        (lambda: Gaussian(mean=math.nan), "`mean` must be a finite number"),
        (lambda: Uniform(1.0, 1.0), "`high` must be > low = 1.0"),
        (lambda: Sphere(0.0), "`radius` must be a finite number > 0"),
        (lambda: Sparse(0), "`n_nonzero` must be an integer >= 1"),
        (lambda: StudentT(0.0), "`df` must be"),
        (lambda: Mixture((), ()), "`components` must have at least one"),
        (lambda: Mixture((Gaussian(),), (0.5, 0.5)), "`weights` must have one number for each"),
        (lambda: two_gaussians(0.9, 0.2), "`weights` must sum to 1"),
        (
            lambda: draw(Gaussian(scales=(1.0,)), (2, 3)),
            "`scales` must have a number for each of 3",
        ),
    ],
)
def test_impossible_distributions(make, message):
    with pytest.raises(InvalidParameter) as caught:
        make()
    assert message in str(caught.value)
