"""Baselines against NumPy, SciPy and scikit-learn, prefix by prefix, and what none of them may see."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from sklearn import linear_model
from sklearn.neighbors import KNeighborsRegressor

from icgd.errors import InvalidParameter
from icgd.lab.baselines import (
    Averaging,
    GradientDescent,
    Lasso,
    LeastSquares,
    NearestNeighbours,
    NewtonIterations,
    PromptNetwork,
    Ridge,
    optimal_ridge,
    prefix_of,
)
from icgd.lab.tasks import (
    Autoregression,
    DecisionTree,
    Gaussian,
    LinearRegression,
    MLPChain,
    RepresentationRegression,
    Sphere,
)
from icgd.lab.tasks.batch import Batch

SIZES = [(3, 2, 8, 1), (1, 1, 5, 1), (4, 3, 7, 2), (2, 4, 1, 1)]
"""(d_x, prompts, points, d_y)"""


def sample(size, seed=0, std=0.3, dtype=torch.float64, n_dims=None):
    d_x, n_prompts, n_points, d_y = size
    task = LinearRegression(d_x, d_y=d_y, noise=Gaussian(std=std), dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    return task.sample(n_prompts, n_points, generator=generator, n_dims=n_dims)


def by_prefix(batch, fit):
    """(B, n, d_y) from fit(X, Y, x) on the pairs before each position; zeros at the first."""
    xs, ys = batch.xs.numpy(), batch.ys.numpy()
    out = np.zeros_like(ys)
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            out[b, i] = fit(xs[b, :i], ys[b, :i], xs[b, i])
    return out


def agree(predictions, expected, rtol=1e-9):
    scale = max(1.0, float(np.abs(expected).max()))
    assert np.abs(predictions.numpy() - expected).max() <= rtol * scale


ALL = [
    LeastSquares(),
    Ridge(0.5),
    Lasso(0.1),
    Averaging(),
    NearestNeighbours(2),
    NearestNeighbours(3, "distance"),
    GradientDescent(4),
    NewtonIterations(4),
    PromptNetwork(2, 8, n_epochs=5),
]
KIND = [type(b).__name__ + str(i) for i, b in enumerate(ALL)]


# -- every baseline -----------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ALL, ids=KIND)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_the_first_position(baseline, size, dtype):
    batch = sample(size, dtype=dtype)
    predictions = baseline(batch)
    assert predictions.shape == batch.ys.shape
    assert predictions.dtype == dtype
    assert predictions.isfinite().all()
    assert (predictions[:, 0] == 0).all()


@pytest.mark.parametrize("baseline", ALL, ids=KIND)
@pytest.mark.parametrize("i", [1, 3, 5])
def test_no_position_sees_its_target_or_what_follows(baseline, i):
    batch = sample((3, 2, 7, 1))
    xs, ys = batch.xs.clone(), batch.ys.clone()
    ys[:, i:] += 7.0
    xs[:, i + 1 :] -= 3.0
    before, after = baseline(batch), baseline(Batch(xs, ys))
    assert torch.allclose(before[:, : i + 1], after[:, : i + 1], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(before[:, i + 1], after[:, i + 1])


@pytest.mark.parametrize("baseline", ALL, ids=KIND)
def test_prompts_do_not_influence_each_other(baseline):
    batch = sample((3, 3, 6, 1))
    other = Batch(batch.xs.clone(), batch.ys.clone())
    other.xs[1:] *= 2
    other.ys[1:] -= 1
    assert torch.allclose(baseline(batch)[0], baseline(other)[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("baseline", ALL, ids=KIND)
def test_a_longer_prompt_changes_nothing_before(baseline):
    batch = sample((3, 2, 8, 1))
    short = Batch(batch.xs[:, :5], batch.ys[:, :5])
    assert torch.allclose(baseline(short), baseline(batch)[:, :5], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("baseline", ALL, ids=KIND)
def test_coordinates_that_are_zero(baseline):
    """A curriculum's prompts: predictions are those in the coordinates in use."""
    padded = sample((5, 2, 9, 1), n_dims=2)
    assert baseline(padded).isfinite().all()
    if not isinstance(baseline, PromptNetwork):  # its initial weights depend on the width
        small = Batch(padded.xs[..., :2], padded.ys)
        assert torch.allclose(baseline(padded), baseline(small), rtol=1e-7, atol=1e-9)


# -- one by one ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", [0, 1])
def test_least_squares(size, seed):
    batch = sample(size, seed)
    expected = by_prefix(batch, lambda X, Y, x: x @ scipy.linalg.lstsq(X, Y)[0])
    agree(LeastSquares()(batch), expected, 1e-8)
    assert torch.equal(Ridge(0.0)(batch), LeastSquares()(batch))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lam", [1e-3, 0.5, 10.0])
def test_ridge(size, lam):
    batch = sample(size)

    def fit(X, Y, x):
        return np.ravel(
            linear_model.Ridge(lam, fit_intercept=False, solver="svd").fit(X, Y).predict(x[None])
        )

    agree(Ridge(lam)(batch), by_prefix(batch, fit))


@pytest.mark.parametrize("sigma", [0.5, 2.0])
@pytest.mark.parametrize("tau", [1.0, 0.5])
def test_the_optimal_penalty_is_optimal(sigma, tau):
    """Against other penalties, on many prompts; the difference of paired errors by 5 sigma."""
    task = LinearRegression(
        3, noise=Gaussian(std=sigma), weights=Gaussian(std=tau), scale=2.0, dtype=torch.float64
    )
    best = optimal_ridge(task)
    assert best.lam == pytest.approx(sigma**2 / (4 * tau**2))
    batch = task.sample(4000, 8, generator=torch.Generator().manual_seed(0))
    own = (best(batch) - batch.ys)[:, -1].square()
    for factor in (0.1, 10.0):
        worse = (Ridge(best.lam * factor)(batch) - batch.ys)[:, -1].square() - own
        assert worse.mean() > -5 * worse.std() / np.sqrt(4000)
        assert worse.mean() > 0


def test_the_optimal_penalty_needs_a_linear_normal_task():
    assert optimal_ridge(LinearRegression(3)).lam == 0.0
    assert optimal_ridge(RepresentationRegression(3, noise=Gaussian())).features is not None
    for task in (
        DecisionTree(3),
        LinearRegression(3, weights=Sphere()),
        LinearRegression(3, noise=Gaussian(mean=1.0)),
    ):
        with pytest.raises(InvalidParameter):
            optimal_ridge(task)


@pytest.mark.parametrize("size", [(3, 2, 8, 1), (2, 2, 6, 2), (1, 1, 4, 1)])
@pytest.mark.parametrize("alpha", [0.01, 0.5])
def test_lasso(size, alpha):
    batch = sample(size)

    def fit(X, Y, x):
        path = linear_model.LassoLars(alpha=alpha, fit_intercept=False)
        return [path.fit(X, Y[:, o]).predict(x[None])[0] for o in range(Y.shape[1])]

    agree(Lasso(alpha, tol=1e-10)(batch), by_prefix(batch, fit), 1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_averaging(size):
    batch = sample(size)
    agree(Averaging()(batch), by_prefix(batch, lambda X, Y, x: x @ (X.T @ Y) / len(X)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("weighting", ["uniform", "distance"])
def test_nearest_neighbours(size, k, weighting):
    batch = sample(size)

    def fit(X, Y, x):
        model = KNeighborsRegressor(min(k, len(X)), weights=weighting)
        return np.ravel(model.fit(X, Y).predict(x[None]))

    agree(NearestNeighbours(k, weighting)(batch), by_prefix(batch, fit))


def test_a_neighbour_at_distance_zero():
    xs = torch.tensor([[[1.0], [2.0], [1.0]]])
    ys = torch.tensor([[[5.0], [9.0], [0.0]]])
    assert NearestNeighbours(2, "distance")(Batch(xs, ys))[0, 2].item() == 5.0
    assert NearestNeighbours(2, "uniform")(Batch(xs, ys))[0, 2].item() == 7.0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lr", [None, 0.1])
def test_gradient_descent(size, lr):
    batch, n_steps = sample(size), 6
    iterates = GradientDescent(n_steps, lr).iterates(batch)
    assert iterates.shape == (n_steps + 1, *batch.ys.shape)
    for k in range(n_steps + 1):

        def fit(X, Y, x, k=k):
            S, c = X.T @ X / len(X), X.T @ Y / len(X)
            w = np.zeros_like(c)
            for _ in range(k):
                w = w - (lr or 1 / np.linalg.norm(S, 2)) * (S @ w - c)
            return x @ w

        agree(iterates[k], by_prefix(batch, fit))
    assert torch.equal(GradientDescent(n_steps, lr)(batch), iterates[-1])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", [1.0, 0.3])
def test_newton(size, start):
    batch, n_steps = sample(size), 6
    iterates = NewtonIterations(n_steps, start).iterates(batch)
    for k in range(n_steps + 1):

        def fit(X, Y, x, k=k):
            S = X.T @ X
            M = start * S / np.linalg.norm(S @ S, 2)
            for _ in range(k):
                M = 2 * M - M @ S @ M
            return x @ (M @ X.T @ Y)

        agree(iterates[k], by_prefix(batch, fit))


@pytest.mark.parametrize("size", [(3, 4, 9, 1), (5, 2, 4, 2)])
def test_iterates_converge_to_least_squares(size):
    """Fewer examples than dimensions included; Newton's errors do not grow afterwards."""
    batch = sample(size)
    expected = LeastSquares()(batch).numpy()
    agree(NewtonIterations(60)(batch), expected, 1e-6)
    agree(NewtonIterations(200)(batch), expected, 1e-6)
    agree(GradientDescent(20_000)(batch), expected, 1e-2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ridge(-1.0),
        lambda: Lasso(0.0),
        lambda: NearestNeighbours(0),
        lambda: NearestNeighbours(1, "other"),
        lambda: GradientDescent(-1),
        lambda: GradientDescent(1, 0.0),
        lambda: NewtonIterations(1, 2.0),
        lambda: PromptNetwork(0),
        lambda: LeastSquares(period=0)(sample((2, 1, 3, 1))),
        lambda: LeastSquares(features=lambda b: b.xs[:, 1:])(sample((2, 1, 3, 1))),
    ],
)
def test_impossible_baselines(make):
    with pytest.raises(InvalidParameter):
        make()


# -- features and series ------------------------------------------------------------------------------


def test_features_that_are_known():
    task = RepresentationRegression(3, dtype=torch.float64, representation_init="orthogonal")
    batch = task.sample(4, 12, generator=torch.Generator().manual_seed(0))
    known, raw = LeastSquares(features=task.features)(batch), LeastSquares()(batch)
    assert (known - batch.ys)[:, 4:].abs().max() < 1e-6
    assert (raw - batch.ys)[:, 4:].abs().max() > 0.1


def test_an_exact_series_is_predicted_from_its_features():
    task = Autoregression(2, order=2, noise=None, gain=1.2, slope=0.5, dtype=torch.float64)
    batch = task.sample(4, 12, generator=torch.Generator().manual_seed(0))
    error = (LeastSquares(features=task.features)(batch) - batch.ys).abs()
    assert error[:, 8:].max() < 1e-6
    # Position 1 has only the target of position 0 before it, which nothing predicts.
    assert prefix_of(batch).usable.sum(1).tolist() == [0, 0, *range(1, 11)]


def test_chains_are_solved_layer_by_layer():
    """With slope 1 the states are linear in the state before, with one matrix per layer."""
    task = MLPChain(2, n_layers=3, slope=1.0, dtype=torch.float64)
    batch = task.sample(3, 4 * 5 - 1, generator=torch.Generator().manual_seed(0))
    predictions = LeastSquares(period=task.period)(batch)
    late = batch.counted & (torch.arange(19) >= 12)
    assert (predictions - batch.ys)[:, late].abs().max() < 1e-8
    mixed = LeastSquares()(batch)
    assert (mixed - batch.ys)[:, late].abs().max() > 1e-2
    usable = prefix_of(batch, period=4).usable
    assert usable[12].nonzero().flatten().tolist() == [0, 4, 8]
    assert usable[11].sum() == 0
