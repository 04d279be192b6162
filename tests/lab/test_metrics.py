"""Metrics against NumPy, SciPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine as cosine_distance
from sklearn.metrics import r2_score

from icgd.errors import InvalidParameter
from icgd.lab.baselines import (
    Averaging,
    GradientDescent,
    LeastSquares,
    NewtonIterations,
    Ridge,
)
from icgd.lab.metrics import (
    best_matching_iterate,
    cosine_of_gradients,
    cosine_per_position,
    excess_loss,
    interpolate,
    loss_per_position,
    query_gradients,
    r2_per_position,
    similarity_of_errors,
    similarity_of_errors_per_position,
    squared_errors,
)
from icgd.lab.tasks import Gaussian, LinearRegression
from icgd.lab.tasks.batch import Batch

SHAPES = [(5, 4, 1), (3, 2, 3), (2, 1, 1)]


def numbers(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for _ in range(3)]


def sample(d=4, n_prompts=6, n_points=9, std=0.5, seed=0):
    task = LinearRegression(d, noise=Gaussian(std=std), dtype=torch.float64)
    return task.sample(n_prompts, n_points, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_losses(shape, seed):
    p, q, y = numbers(shape, seed)
    loss = loss_per_position(p, y)
    for i in range(shape[1]):
        ours, theirs = (np.mean((m[:, i].double() - y[:, i].double()).numpy() ** 2) for m in (p, q))
        assert loss[i].item() == pytest.approx(ours)
        assert excess_loss(p, q, y)[i].item() == pytest.approx(ours - theirs)
        assert excess_loss(p, q, y, relative=True)[i].item() == pytest.approx(ours / theirs - 1)


def test_only_counted_positions_enter_the_mean():
    p, x, y = numbers((5, 4, 2))
    counted = torch.tensor([True, False, True, False])
    some = Batch(x, y, "series", counted).mean(squared_errors(p, y)).item()
    assert some == pytest.approx(np.mean((p.double() - y.double()).numpy()[:, [0, 2]] ** 2))
    whole = Batch(x, y).mean(squared_errors(p, y)).item()
    assert whole == pytest.approx(torch.nn.functional.mse_loss(p, y).item())


@pytest.mark.parametrize("shape", [(5, 4, 1), (7, 2, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_r2(shape, seed):
    p, _, y = numbers(shape, seed)
    for i, value in enumerate(r2_per_position(p, y).tolist()):
        mine, truth = p[:, i].double().numpy(), y[:, i].double().numpy()
        if shape[2] == 1:
            assert value == pytest.approx(r2_score(truth, mine))
        else:
            weighted = r2_score(truth, mine, multioutput="variance_weighted")
            assert value == pytest.approx(weighted)


def test_r2_is_pooled_over_prompts():
    """A predictor that knows each prompt's level explains what prompts differ in."""
    level = torch.tensor([0.0, 10.0, 20.0]).reshape(3, 1, 1).expand(3, 5, 1)
    noise = torch.randn(3, 5, 1, generator=torch.Generator().manual_seed(0))
    assert (r2_per_position(level, level + noise) > 0.9).all()
    assert r2_per_position(level, torch.ones(3, 5, 1)).isnan().all()
    assert torch.equal(r2_per_position(level, level), torch.ones(5).double())


@pytest.mark.parametrize("shape", SHAPES)
def test_cosines(shape):
    p, q, y = numbers(shape)
    cosine, alike = cosine_per_position(p, q), similarity_of_errors_per_position(p, q, y)
    for i in range(shape[1]):
        a, b, t = (m[:, i].double().numpy().ravel() for m in (p, q, y))
        assert cosine[i].item() == pytest.approx(1 - cosine_distance(a, b))
        assert alike[i].item() == pytest.approx(1 - cosine_distance(a - t, b - t))
    along = [
        1 - cosine_distance(*((m[j].double() - y[j].double()).numpy().ravel() for m in (p, q)))
        for j in range(shape[0])
    ]
    assert similarity_of_errors(p, q, y).item() == pytest.approx(np.mean(along))


def test_cosines_of_small_and_of_no_vectors():
    p, q, _ = numbers((5, 4, 1))
    for size in (1e-200, 1e200):
        scaled = cosine_per_position(p.double() * size, q)
        assert torch.allclose(scaled, cosine_per_position(p, q))
    assert torch.allclose(cosine_per_position(p, 3 * p), torch.ones(4).double())
    assert cosine_per_position(torch.zeros_like(p), q).isnan().all()
    assert similarity_of_errors_per_position(q, p, q).isnan().all()


# -- gradients ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_of_linear_predictors_are_their_weights(seed):
    batch = sample(seed=seed)
    for baseline in (LeastSquares(), Ridge(0.3), Averaging()):
        weights = baseline.weights(baseline.prefix(batch))
        slopes = query_gradients(baseline, batch)
        assert slopes.shape == (6, 9, 1, 4)
        assert torch.allclose(slopes, weights.transpose(2, 3), atol=1e-10)
        some = query_gradients(baseline, batch, [2, 8])
        assert torch.equal(some, slopes[:, [2, 8]])


def test_gradients_against_differences():
    def predict(batch):
        """Causal and not linear."""
        return (batch.xs.cumsum(1).sin() * batch.xs).sum(-1, keepdim=True)

    batch, step = sample(), 1e-6
    slopes = query_gradients(predict, batch, [3])
    for k in range(4):
        up, down = batch.xs.clone(), batch.xs.clone()
        up[:, 3, k] += step
        down[:, 3, k] -= step
        change = (predict(Batch(up, batch.ys)) - predict(Batch(down, batch.ys)))[:, 3, 0]
        assert torch.allclose(slopes[:, 0, 0, k], change / (2 * step), atol=1e-6)


def test_cosine_of_gradients():
    batch = sample()
    first, second = Ridge(0.3), Averaging()
    a, b = (
        baseline.weights(baseline.prefix(batch))[..., 0].numpy() for baseline in (first, second)
    )
    cosines = cosine_of_gradients(first, second, batch, [2, 8])
    for p, i in enumerate((2, 8)):
        expected = np.mean([1 - cosine_distance(a[j, i], b[j, i]) for j in range(6)])
        assert cosines[p].item() == pytest.approx(expected)
    assert torch.allclose(cosine_of_gradients(first, first, batch, [5]), torch.ones(1).double())
    # At the first position there is no example, and no direction.
    assert cosine_of_gradients(first, second, batch, [0]).isnan().all()


def test_a_predictor_without_gradients():
    with pytest.raises(InvalidParameter, match="be differentiable"):
        query_gradients(lambda batch: batch.ys, sample())


# -- iterates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GradientDescent, NewtonIterations])
@pytest.mark.parametrize("k", [1, 3])
def test_an_iterate_matches_itself(kind, k):
    batch = sample(n_prompts=20)
    iterates = kind(6).iterates(batch)
    index, alike = best_matching_iterate(iterates[k], iterates, batch.ys)
    assert (index[3:] == k).all()
    assert torch.allclose(alike[3:], torch.ones(6).double())


def test_the_best_match_by_hand():
    p, q, y = numbers((5, 4, 2))
    iterates = torch.stack([q, p + 0.1 * q, y])
    index, alike = best_matching_iterate(p, iterates, y)
    errors = [(m.double() - y.double()).transpose(0, 1).flatten(1).numpy() for m in (p, *iterates)]
    table = np.array(
        [[1 - cosine_distance(errors[0][i], other[i]) for i in range(4)] for other in errors[1:3]]
    )
    assert index.tolist() == table.argmax(0).tolist()
    assert np.allclose(alike.numpy(), table.max(0))
    nothing = best_matching_iterate(y, iterates, y)
    assert (nothing[0] == -1).all()
    assert nothing[1].isnan().all()


# -- interpolation and complaints ---------------------------------------------------------------------


def test_interpolation_of_models():
    first, second = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    middle = torch.nn.Linear(2, 3)
    middle.load_state_dict(interpolate(first.state_dict(), second.state_dict(), 0.25))
    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(middle(x), 0.75 * first(x) + 0.25 * second(x), atol=1e-6)
    for at, end in ((0.0, first), (1.0, second)):
        same = interpolate(first.state_dict(), second.state_dict(), at)
        assert torch.equal(same["weight"], end.weight)


def test_what_cannot_be_interpolated():
    a = {"w": torch.ones(2), "n": torch.tensor(3)}
    assert interpolate(a, a, 0.5)["n"] == 3
    for b in (
        {"w": torch.ones(2)},
        {"w": torch.ones(3), "n": torch.tensor(3)},
        {"w": torch.ones(2), "n": torch.tensor(4)},
    ):
        with pytest.raises(InvalidParameter):
            interpolate(a, b, 0.5)


def test_shapes_must_agree():
    p, q, _ = numbers((5, 4, 1))
    for call in (
        lambda: loss_per_position(p, q[:, :3]),
        lambda: r2_per_position(p[..., 0], q[..., 0]),
        lambda: cosine_per_position(p, q[:2]),
        lambda: best_matching_iterate(p, p, q),
    ):
        with pytest.raises(InvalidParameter):
            call()
