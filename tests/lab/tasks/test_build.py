"""Laws that every task keeps, and what each one's targets are, by oracles written anew."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from icgd.errors import InvalidParameter
from icgd.lab.tasks import (
    TASKS,
    DecisionTree,
    Gaussian,
    LinearClassification,
    LinearRegression,
    LogisticRegression,
    NoisyLinearRegression,
    PoissonRegression,
    QuadraticRegression,
    ReluTwoLayerRegression,
    Sparse,
    SparseLinearRegression,
    Sphere,
    TaskConfig,
    Uniform,
    build_task,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(name, d_x=4, **options):
    if name == "network_regression":
        options.setdefault("hidden_layer_size", 16)
    return TASKS[name](d_x, **options)


NAMES = sorted(TASKS)
SERIES = {"autoregression", "mlp_chain"}


# -- every task ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n_prompts", "n_points", "d_x"), [(3, 7, 4), (1, 5, 1), (2, 30, 6)])
def test_shapes(name, n_prompts, n_points, d_x):
    task = make(name, d_x)
    batch = task.sample(n_prompts, n_points, generator=seeded())
    assert batch.xs.shape == (n_prompts, n_points, d_x)
    assert batch.ys.shape == (n_prompts, n_points, task.d_y)
    assert batch.xs.dtype == batch.ys.dtype == torch.float32
    assert batch.xs.device.type == "cpu"
    assert batch.xs.isfinite().all()
    assert batch.ys.isfinite().all()
    assert batch.kind == ("series" if name in SERIES else "pairs")
    assert task.name == name


@pytest.mark.parametrize("name", sorted(set(NAMES) - SERIES))
def test_several_outputs(name):
    batch = make(name, 3, d_y=2).sample(50, 6, generator=seeded())
    assert batch.ys.shape == (50, 6, 2)
    assert not torch.equal(batch.ys[..., 0], batch.ys[..., 1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_seed_means_one_batch(name, dtype):
    task = make(name, dtype=dtype)
    first, again = (task.sample(3, 8, generator=seeded(5)) for _ in range(2))
    same_task = make(name, dtype=dtype).sample(3, 8, generator=seeded(5))
    assert first.xs.dtype == dtype
    for other in (again, same_task):
        assert torch.equal(first.xs, other.xs)
        assert torch.equal(first.ys, other.ys)
    assert not torch.equal(first.xs, task.sample(3, 8, generator=seeded(6)).xs)


@pytest.mark.parametrize("name", NAMES)
def test_global_randomness_plays_no_part(name):
    task = make(name)
    torch.manual_seed(1)
    first = task.sample(2, 8, generator=seeded())
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = task.sample(2, 8, generator=seeded())
    assert torch.equal(first.ys, second.ys)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_fewer_dimensions(name, n_dims):
    batch = make(name).sample(40, 9, generator=seeded(), n_dims=n_dims)
    assert batch.xs.shape[2] == 4
    assert (batch.xs[..., n_dims:] == 0).all()
    assert (batch.xs[..., :n_dims] != 0).any(dim=(0, 1)).all()
    if name in SERIES:
        assert (batch.ys[..., n_dims:] == 0).all()


@pytest.mark.parametrize(
    "name", sorted(set(NAMES) - {"representation_regression", "autoregression"})
)
def test_fewer_dimensions_are_the_smaller_task(name):
    """All but those with a fixed representation of d_x inputs."""
    padded = make(name, 5).sample(3, 9, generator=seeded(2), n_dims=3)
    small = make(name, 3).sample(3, 9, generator=seeded(2))
    assert torch.equal(padded.xs[..., :3], small.xs)
    assert torch.equal(padded.ys[..., : small.ys.shape[2]], small.ys)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"autoregression"}))
def test_one_point(name):
    assert make(name).sample(2, 1, generator=seeded()).ys.shape[1] == 1


@pytest.mark.parametrize("name", NAMES)
def test_bad_requests(name):
    task = make(name)
    for request, message in (
        ({"batch_size": 0, "n_points": 5}, "`batch_size` must be an integer >= 1"),
        ({"batch_size": 1, "n_points": 0}, "`n_points` must be an integer >= 1"),
        ({"batch_size": 1, "n_points": 5, "n_dims": 5}, "`n_dims` must be at most d_x = 4"),
        ({"batch_size": 1, "n_points": 5, "n_dims": 0}, "`n_dims` must be an integer >= 1"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            task.sample(**request, generator=seeded())


def test_bad_tasks():
    with pytest.raises(InvalidParameter, match="`d_x` must be an integer"):
        LinearRegression(0)
    with pytest.raises(InvalidParameter, match="dtype"):
        LinearRegression(2, dtype=torch.float16)
    with pytest.raises(InvalidParameter, match="random already"):
        PoissonRegression(2, noise=Gaussian())
    with pytest.raises(InvalidParameter, match="be at most 16"):
        DecisionTree(2, depth=17)


# -- targets ------------------------------------------------------------------------------------------


def exact(task, n_prompts=30, n_points=12, seed=0):
    batch = task.sample(n_prompts, n_points, generator=seeded(seed))
    return batch.xs.numpy(), batch.ys.numpy()


def fitted(X, Y):
    """Weights by least squares, and the largest error of the fit."""
    W = np.stack([np.linalg.lstsq(x, y, rcond=None)[0] for x, y in zip(X, Y, strict=True)])
    return W, np.abs(X @ W - Y).max()


@pytest.mark.parametrize("d_y", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_linear_targets_are_linear(d_y, scale):
    X, Y = exact(LinearRegression(5, d_y=d_y, scale=scale, dtype=torch.float64), 400)
    W, error = fitted(X, Y)
    assert error < 1e-11
    W = W / scale
    assert abs(W.mean()) < 5 / math.sqrt(W.size)
    assert abs((W**2).mean() - 1) < 5 * math.sqrt(2 / W.size)
    assert len(np.unique(np.round(W[:, 0, 0], 9))) == 400


def test_quadratic_targets_are_linear_in_squares():
    X, Y = exact(QuadraticRegression(5, dtype=torch.float64), 400)
    W, error = fitted(X**2 / math.sqrt(3), Y)
    assert error < 1e-10
    assert abs((W**2).mean() - 1) < 5 * math.sqrt(2 / W.size)


@pytest.mark.parametrize("k", [1, 3])
def test_sparse_weights(k):
    X, Y = exact(SparseLinearRegression(6, weights=Sparse(k), dtype=torch.float64))
    W, error = fitted(X, Y)
    assert error < 1e-11
    assert ((np.abs(W) > 1e-9).sum(1) == k).all()


@pytest.mark.parametrize("std", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_level_of_noise(std, seed):
    """The same seed without noise gives the same prompts: noise is drawn last."""
    clean = LinearRegression(3, dtype=torch.float64).sample(100, 50, generator=seeded(seed))
    noisy = NoisyLinearRegression(3, noise=Gaussian(std=std), dtype=torch.float64)
    batch = noisy.sample(100, 50, generator=seeded(seed))
    assert torch.equal(batch.xs, clean.xs)
    difference = batch.ys - clean.ys
    assert abs(difference.square().mean() - std**2) <= 5 * std**2 * math.sqrt(2 / 5000)


def test_other_inputs_and_weights():
    batch = LinearRegression(4, inputs=Uniform(2.0, 3.0)).sample(20, 9, generator=seeded())
    assert ((batch.xs >= 2) & (batch.xs <= 3)).all()
    X, Y = exact(LinearRegression(4, weights=Sphere(2.0), dtype=torch.float64))
    assert np.allclose(np.linalg.norm(fitted(X, Y)[0], axis=1), 2.0)


def test_classification_is_the_sign():
    task, linear = LinearClassification(4), LinearRegression(4)
    batch, scores = (t.sample(9, 11, generator=seeded(3)) for t in (task, linear))
    assert torch.equal(batch.ys, scores.ys.sign())
    noisy = LinearClassification(4, noise=Gaussian(std=3.0)).sample(50, 50, generator=seeded(3))
    assert set(noisy.ys.unique().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_labels_and_counts_have_their_means(scale):
    for kind, inverse in ((LogisticRegression, expit), (PoissonRegression, np.exp)):
        mean = kind(6, scale=scale, observe="mean", dtype=torch.float64)
        drawn = kind(6, scale=scale, dtype=torch.float64)
        X, M = exact(mean, 50, 200)
        X_again, Y = exact(drawn, 50, 200)
        assert np.array_equal(X, X_again)
        eta = np.log(M / (1 - M)) if kind is LogisticRegression else np.log(M)
        W, error = fitted(X, eta)
        assert error < 1e-6
        assert np.allclose(inverse(X @ W), M)
        assert abs((W**2).sum(1).mean() - scale**2) < 5 * scale**2 * math.sqrt(2 / (6 * 50))
        variance = M * (1 - M) if kind is LogisticRegression else M
        z = (Y - M).sum() / math.sqrt(variance.sum())
        assert abs(z) < 5
        assert np.array_equal(Y, np.round(Y))


def test_labels_are_zero_and_one():
    assert set(exact(LogisticRegression(3))[1].ravel()) == {0.0, 1.0}


@pytest.mark.parametrize("hidden", [1, 8, 64])
def test_two_layers(hidden):
    """The targets lie in the span of `hidden` ReLU units, and have the variance of a linear task's."""
    task = ReluTwoLayerRegression(4, hidden_layer_size=hidden, dtype=torch.float64)
    xs = task.sample(2000, 2, generator=seeded()).xs
    ys = task.sample(2000, 2, generator=seeded()).ys
    assert abs(ys.square().mean() / 4 - 1) < 0.5
    stretched = ReluTwoLayerRegression(
        4, hidden_layer_size=hidden, dtype=torch.float64, inputs=Gaussian(std=3.0)
    )
    assert torch.allclose(stretched.sample(2000, 2, generator=seeded()).ys, 3 * ys)
    assert torch.allclose(stretched.sample(2000, 2, generator=seeded()).xs, 3 * xs)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_trees_by_hand(depth):
    """The same draws, walked in plain Python."""
    n_prompts, n_points, d = 5, 20, 3
    task = DecisionTree(d, depth=depth, dtype=torch.float64)
    batch = task.sample(n_prompts, n_points, generator=seeded(4))
    generator = seeded(4)
    torch.randn(n_prompts, n_points, d, generator=generator, dtype=torch.float64)
    asks = torch.randint(d, (n_prompts, 2**depth - 1), generator=generator).tolist()
    leaves = torch.randn(n_prompts, 2**depth, 1, generator=generator, dtype=torch.float64)
    for b in range(n_prompts):
        for i in range(n_points):
            node = 0
            while node < 2**depth - 1:
                node = 2 * node + (2 if batch.xs[b, i, asks[b][node]] > 0 else 1)
            assert batch.ys[b, i, 0] == leaves[b, node - (2**depth - 1), 0]


# -- by name ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_name_builds(name):
    task = build_task(TaskConfig(name=name, n_dims=3))
    assert (task.name, task.d_x) == (name, 3)


def test_names_of_the_well_known_repository():
    known = (
        "linear_regression",
        "sparse_linear_regression",
        "noisy_linear_regression",
        "quadratic_regression",
        "relu_2nn_regression",
        "decision_tree",
        "linear_classification",
    )
    assert set(known) <= set(TASKS)
    config = TaskConfig.model_validate(
        {"name": "relu_2nn_regression", "n_dims": 6, "data": "gaussian", "hidden_layer_size": 12}
    )
    task = build_task(config)
    assert task == ReluTwoLayerRegression(6, hidden_layer_size=12)
    assert build_task(TaskConfig(name="decision_tree", n_dims=6, depth=3)) == DecisionTree(
        6, depth=3
    )


def test_short_forms():
    noisy = build_task(TaskConfig(name="noisy_linear_regression", n_dims=5, noise_std=0.5))
    assert noisy.noise == Gaussian(std=0.5)
    assert build_task(TaskConfig(name="noisy_linear_regression", noise_std=0)).noise is None
    assert build_task(TaskConfig(name="sparse_linear_regression", sparsity=4)).weights == Sparse(4)
    assert build_task(TaskConfig(), dtype=torch.float64).dtype == torch.float64


def test_a_config_survives_json():
    config = TaskConfig(
        name="network_regression", data={"kind": "sphere", "radius": 2.0}, n_layers=4
    )
    assert TaskConfig.model_validate_json(config.model_dump_json()) == config
    assert build_task(config).inputs == Sphere(2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "linear_regresion"}, "Did you mean 'linear_regression'?"),
        (
            {"name": "decision_tree", "sparsity": 3, "weights": "sphere"},
            "`task.sparsity` must be left out",
        ),
        (
            {"name": "decision_tree", "order": 3},
            "decision_tree has no such option. Got 3. It has depth.",
        ),
        ({"name": "mlp_chain", "n_outputs": 3}, "`d_y` must be d_x = 20"),
        (
            {"noise": "gaussian", "noise_std": 1.0},
            "`task.noise_std` must be left out where task.noise",
        ),
    ],
)
def test_bad_configurations(options, message):
    with pytest.raises(InvalidParameter) as caught:
        build_task(TaskConfig(**options))
    assert message in str(caught.value)
