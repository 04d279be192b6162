"""The network estimator trains by SGD in context, on standardised data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import icgd


@pytest.fixture(scope="module")
def fitted(diabetes):
    X, y = diabetes
    return icgd.InContextMLPRegressor((8,), max_iter=5, random_state=0).fit(
        X[:150] * 30 + 7, y[:150]
    )


def test_it_learns(fitted, diabetes):
    X, y = diabetes
    assert fitted.score(X[:150] * 30 + 7, y[:150]) > 0.3
    assert fitted.n_iter_ == 5
    assert fitted.run_.cost.rounds == 750


def test_predictions_are_the_networks_on_standardised_rows(fitted, diabetes):
    X = diabetes[0][:20] * 30 + 7
    train = diabetes[0][:150] * 30 + 7
    hidden = (X - train.mean(axis=0)) / train.std(axis=0)
    hidden = np.maximum(hidden @ fitted.coefs_[0] + fitted.intercepts_[0], 0)
    out = (hidden @ fitted.coefs_[1] + fitted.intercepts_[1]).ravel()
    y = diabetes[1][:150]
    assert np.abs(fitted.predict(X) - (out * y.std() + y.mean())).max() <= 1e-10


def test_the_seed_decides_everything(linear):
    def train(seed):
        return icgd.InContextMLPRegressor(4, max_iter=2, random_state=seed).fit(*linear)

    assert (train(0).coefs_[0] == train(0).coefs_[0]).all()
    assert (train(0).coefs_[0] != train(1).coefs_[0]).any()
    assert train(0).coefs_[0].shape == (4, 4)


def test_rows_beyond_the_range_are_answered_by_a_wider_program(fitted, diabetes):
    far = diabetes[0][:3] * 1e5
    assert torch.isfinite(torch.tensor(fitted.predict(far))).all()
    with pytest.raises(icgd.AssumptionViolated, match="gates can shut"):
        fitted.predict(far * 1e9)


def test_divergence_names_the_parameter_to_change(linear):
    with pytest.raises(icgd.AssumptionViolated, match=r"learning_rate_init = 5"):
        icgd.InContextMLPRegressor(learning_rate_init=5.0, random_state=0).fit(*linear)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hidden_layer_sizes", (4, 0), "hidden_layer_sizes must be > 0"),
        ("hidden_layer_sizes", -1, "The 'hidden_layer_sizes' parameter"),
        ("learning_rate_init", 0.0, "The 'learning_rate_init' parameter"),
        ("max_iter", 0, "The 'max_iter' parameter"),
    ],
)
def test_parameters_are_checked(linear, name, value, message):
    with pytest.raises(ValueError, match=message):
        icgd.InContextMLPRegressor(**{name: value}).fit(*linear)


def test_no_hidden_layer_is_a_linear_model(linear):
    X, y = linear
    model = icgd.InContextMLPRegressor((), max_iter=20, random_state=0).fit(X, y)
    assert len(model.coefs_) == 1
    assert model.score(X, y) > 0.9
