"""What users run into: bad input, warnings, odd shapes, rows far outside the training data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import icgd

LINEAR = [
    icgd.InContextRidge,
    icgd.InContextLasso,
    icgd.InContextLogisticRegression,
    icgd.InContextPoissonRegressor,
]
SQUARED = [icgd.InContextRidge, icgd.InContextLasso]


def by_class(estimator):
    return estimator.__name__


# -- fit and predict are the transformer's --------------------------------------------------------


def test_the_weights_are_what_the_run_wrote(linear):
    X, y = linear
    model = icgd.InContextRidge(lam=0.1).fit(X, y)
    again = model.program_.run(*model.prompt(X, y), init=model.start_, steps=model.n_iter_)
    assert torch.equal(again.weights, model.run_.weights)
    assert (model.coef_ == model.run_.weights.numpy()).all()
    assert model.run_.program is model.program_
    assert icgd.verify(model.program_, *model.prompt(X, y), steps=20).passed


@pytest.mark.parametrize("level", [0.0, 7.0])
def test_a_poisson_run_is_repeated_from_its_start(counts, level):
    X, _ = counts
    y = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0] + level))
    model = icgd.InContextPoissonRegressor(lam=0.01).fit(X, y)
    assert float(model.start_[-1]) == pytest.approx(math.log(y.mean()))
    again = model.program_.run(*model.prompt(X, y), init=model.start_, steps=model.n_iter_)
    assert torch.equal(again.weights, model.run_.weights)


def test_a_batch_of_classes_is_repeated_from_its_start(iris):
    model = icgd.InContextLogisticRegression(lam=0.1).fit(*iris)
    again = model.program_.run(*model.prompt(*iris), init=model.start_, steps=model.n_iter_)
    assert torch.equal(again.weights, model.run_.weights)


@pytest.mark.parametrize("estimator", LINEAR, ids=by_class)
def test_predictions_come_out_of_the_transformer(linear, estimator, monkeypatch):
    X, y = linear
    model = estimator().fit(X, y > 0)
    asked = []
    original = icgd.Program.predict

    def counted(program, rows, weights, **options):
        asked.append(len(rows))
        return original(program, rows, weights, **options)

    monkeypatch.setattr(icgd.Program, "predict", counted)
    predicted = (model.predict_proba if hasattr(model, "classes_") else model.predict)(X)
    assert asked == [60]
    s = X @ np.ravel(model.coef_) + model.intercept_
    means = {
        "InContextLogisticRegression": lambda s: 1 / (1 + np.exp(-s)),
        "InContextPoissonRegressor": np.exp,
    }
    mean = means.get(estimator.__name__, lambda s: s)(s)
    answer = predicted[:, 1] if predicted.ndim == 2 else predicted
    assert np.abs(answer - mean).max() <= 1e-12


@pytest.mark.parametrize("steps", [1, 300])
def test_a_number_of_steps_is_taken_to_the_letter(linear, steps):
    model = icgd.InContextLasso(lam=0.1, steps=steps, max_iter=1).fit(*linear)
    assert model.n_iter_ == model.run_.cost.rounds == steps


def test_threads_and_seeds_of_the_caller_are_left_alone(linear):
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    icgd.InContextMLPRegressor(max_iter=1, random_state=0).fit(*linear)
    icgd.InContextRidge().fit(*linear)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", LINEAR, ids=by_class)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lam", -1.0),
        ("lam", math.inf),
        ("lam", "much"),
        ("tol", 0.0),
        ("max_iter", 0),
        ("steps", 0),
        ("steps", "many"),
        ("fit_intercept", "yes"),
    ],
)
def test_parameters_are_checked_as_scikit_learn_does(linear, estimator, name, value):
    X, y = linear
    message = f"The '{name}' parameter of {estimator.__name__} must be"
    with pytest.raises(ValueError, match=message):
        estimator(**{name: value}).fit(X, y > 0)


def test_a_negative_count_is_refused_in_scikit_learns_words(counts):
    X, y = counts
    with pytest.raises(ValueError, match=r"Some value\(s\) of y are out of the valid range of the"):
        icgd.InContextPoissonRegressor().fit(X, y - 1)


def test_a_single_class_is_refused(linear):
    with pytest.raises(ValueError, match="at least 2 classes in the data"):
        icgd.InContextLogisticRegression().fit(linear[0], np.zeros(60))


def test_continuous_classes_are_refused(linear):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        icgd.InContextLogisticRegression().fit(*linear)


def test_a_label_never_seen_in_fit_is_refused(iris):
    X, y = iris
    model = icgd.InContextLogisticRegression(steps=1).fit(X, y)
    with pytest.raises(ValueError, match=r"previously unseen labels: \[7\]"):
        model.prompt(X, np.full(150, 7))


@pytest.mark.parametrize("method", ["predict", "prompt"])
def test_nothing_works_before_fit(linear, method):
    X, y = linear
    with pytest.raises(NotFittedError):
        getattr(icgd.InContextRidge(), method)(*((X, y) if method == "prompt" else (X,)))


def test_targets_beyond_any_grid_are_refused(linear):
    X, y = linear
    with pytest.raises(icgd.AssumptionViolated, match="the widest grid spans"):
        icgd.InContextRidge().fit(X, y * 1e200)


# -- convergence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", LINEAR, ids=by_class)
def test_the_cap_is_announced(linear, estimator):
    X, y = linear
    with pytest.warns(ConvergenceWarning, match="Objective did not converge") as caught:
        model = estimator(lam=0.001, max_iter=2).fit(X, y > 0)
    assert model.n_iter_ == 2
    assert model.error_bound_ > model.tol
    (warning,) = caught
    assert warning.filename == __file__
    assert "max_iter=2" in str(warning.message)
    assert "tolerance: 1.000e-06" in str(warning.message)


@pytest.mark.parametrize("lam", [0.0, 1e-4])
@pytest.mark.parametrize("estimator", SQUARED, ids=by_class)
def test_large_features_do_not_pass_for_converged(estimator, lam):
    """All coefficients are below tol; predictions are not settled for all that."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2)) * [1e6, 1e8]
    y = X[:, 0] * 1e-6 + 0.01 * random.normal(size=200)
    with pytest.warns(ConvergenceWarning, match="predictions settle only at a distance of"):
        model = estimator(lam=lam, max_iter=300).fit(X, y)
    assert model.n_iter_ == 300
    assert model.error_bound_ <= model.tol


def test_small_targets_are_fitted_and_not_called_zero(linear):
    X, y = linear
    model = icgd.InContextRidge(lam=0.0).fit(X, y * 1e-8)
    assert model.score(X, y * 1e-8) > 0.99


def test_large_features_of_one_size_are_fitted(linear):
    X, y = linear
    model = icgd.InContextRidge(lam=0.0).fit(X * 1e8, y)
    assert model.score(X * 1e8, y) > 0.99


def test_a_tolerance_below_rounding_is_announced(linear):
    with pytest.warns(ConvergenceWarning, match=r"down to rounding errors.*Increase tol"):
        model = icgd.InContextRidge(tol=1e-300).fit(*linear)
    assert model.n_iter_ < model.max_iter


@pytest.mark.parametrize("steps", ["auto", 2000])
@pytest.mark.parametrize("estimator", SQUARED, ids=by_class)
def test_collinear_features_without_penalty_are_announced(linear, estimator, steps):
    X, y = linear
    X = np.column_stack([X, X[:, 0] - X[:, 1]])
    with pytest.warns(
        ConvergenceWarning, match=r"have rank \d+ of \d+ to machine precision"
    ) as caught:
        model = estimator(lam=0.0, steps=steps).fit(X, y)
    assert len(caught) == 1
    # What it converges to is named in the warning; with dependence down to rounding, nothing is proved.
    least = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    assert np.linalg.norm(model.coef_ - least) <= 1e-6
    assert model.error_bound_ == math.inf


def test_a_feature_in_tiny_units_is_not_a_dependent_one():
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 2)) * [1.0, 1e-14]
    with pytest.warns(ConvergenceWarning, match="Objective did not converge") as caught:
        model = icgd.InContextRidge(lam=0.0, fit_intercept=False, max_iter=100).fit(
            X, X @ [1, 1e14]
        )
    assert len(caught) == 1
    assert np.linalg.norm(model.coef_ - [1, 1e14]) <= model.error_bound_ < math.inf


def test_more_features_than_examples_are_bounded_from_the_nearest_minimiser():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(5, 30)), random.normal(size=5)
    with pytest.warns(ConvergenceWarning, match=r"have rank \d+ of \d+ to machine precision"):
        model = icgd.InContextRidge(lam=0.0, fit_intercept=False).fit(X, y)
    least = np.linalg.lstsq(X, y, rcond=None)[0]
    assert np.linalg.norm(model.coef_ - least) <= model.error_bound_ <= 1e-6


def test_a_constant_feature_without_penalty_changes_nothing(linear):
    X, y = linear
    with pytest.warns(ConvergenceWarning, match=r"have rank \d+ of \d+ to machine precision"):
        model = icgd.InContextRidge(lam=0.0).fit(np.column_stack([X, np.full(60, 0.1)]), y)
    assert model.coef_[-1] == 0
    assert model.error_bound_ <= model.tol


def test_collinear_features_of_a_classifier_are_announced(linear):
    X, y = linear
    with pytest.warns(ConvergenceWarning, match=r"have rank \d+ of \d+ to machine precision"):
        icgd.InContextLogisticRegression(lam=0.0, steps=5).fit(np.column_stack([X, X]), y > 2)


def test_collinear_features_with_penalty_are_fine(linear):
    X, y = linear
    model = icgd.InContextRidge(lam=0.1).fit(np.column_stack([X, X[:, 0]]), y)
    assert model.coef_[0] == pytest.approx(model.coef_[-1], abs=1e-12)


def test_a_lasso_between_twin_features_says_that_it_proves_nothing(linear):
    X, y = linear
    with pytest.warns(ConvergenceWarning, match="nothing is proved about coef_") as caught:
        model = icgd.InContextLasso(lam=0.1).fit(np.column_stack([X, X[:, 0]]), y)
    assert len(caught) == 1
    assert model.error_bound_ == math.inf
    # The objective is proved all the same, and with it the fit.
    assert model.gap_bound_ <= 0.5 * (model.tol * np.std(y)) ** 2


def test_separable_classes_without_penalty_do_not_pass_silently(linear):
    X, _ = linear
    with pytest.warns(ConvergenceWarning, match="Objective did not converge"):
        icgd.InContextLogisticRegression(lam=0.0, max_iter=500).fit(X, X[:, 0] > 0)


# -- odd shapes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [*SQUARED, icgd.InContextPoissonRegressor], ids=by_class)
def test_one_example_is_explained_by_the_intercept(estimator):
    model = estimator(lam=0.1).fit([[1.0, 2.0]], [3.0])
    assert (model.coef_ == 0).all()
    assert model.predict([[5.0, -5.0]]) == pytest.approx([3.0], abs=1e-9)


@pytest.mark.parametrize("estimator", LINEAR, ids=by_class)
def test_one_feature(linear, estimator):
    X, y = linear
    model = estimator(lam=0.1).fit(X[:, :1], y > y.mean())
    assert np.shape(np.ravel(model.coef_)) == (1,)
    assert model.error_bound_ <= model.tol


@pytest.mark.parametrize("estimator", LINEAR, ids=by_class)
def test_a_constant_feature_gets_weight_zero(linear, estimator):
    X, y = linear
    model = estimator(lam=0.1).fit(np.column_stack([X, np.full(60, 7.0)]), y > y.mean())
    assert np.ravel(model.coef_)[-1] == 0
    assert model.error_bound_ <= model.tol


@pytest.mark.parametrize("scale", [1e-60, 1e-9, 1e9])
def test_targets_of_any_size_are_fitted_to_full_precision(linear, scale):
    X, y = linear
    model = icgd.InContextRidge(lam=0.0, tol=1e-12 * scale).fit(X, y * scale)
    unit = icgd.InContextRidge(lam=0.0, tol=1e-12).fit(X, y)
    assert np.abs(model.coef_ / scale - unit.coef_).max() <= 3e-12


def test_constant_targets():
    model = icgd.InContextRidge().fit([[0.0], [1.0], [2.0]], [4.0, 4.0, 4.0])
    assert model.predict([[9.0]]) == pytest.approx([4.0])
    assert model.error_bound_ <= 1e-12


def test_counts_that_are_all_zero_have_no_minimiser(counts):
    X, _ = counts
    with pytest.warns(ConvergenceWarning, match="Objective did not converge"):
        model = icgd.InContextPoissonRegressor(max_iter=200).fit(X, np.zeros(300))
    assert (model.predict(X) < 0.1).all()


# -- rows far outside the training data -----------------------------------------------------------


def test_rows_beyond_the_range_are_answered_by_a_wider_program(linear):
    model = icgd.InContextRidge(lam=0.1).fit(*linear)
    far = linear[0] * 1e6
    assert np.abs(far @ model.coef_).max() > model.program_.radius
    assert np.allclose(model.predict(far), far @ model.coef_ + model.intercept_, rtol=1e-12)


def test_rows_beyond_every_range_are_refused(linear, counts):
    X, y = linear
    with pytest.raises(icgd.AssumptionViolated, match="the widest grid spans"):
        icgd.InContextRidge(tol=1e60).fit(X, y * 1e70).predict(X * 1e10)
    with pytest.raises(icgd.AssumptionViolated, match="exponential head"):
        icgd.InContextPoissonRegressor().fit(*counts).predict(counts[0] * 1e6)


def test_probabilities_of_a_row_no_class_claims_are_even(iris):
    X, y = iris
    model = icgd.InContextLogisticRegression(lam=0.1, steps=50).fit(X, y)
    # Only the middle class has no direction in which it wins; the others share the rest of the plane.
    direction = -np.linalg.lstsq(model.coef_, np.ones(3), rcond=None)[0]
    proba = model.predict_proba([1e4 * direction])
    assert proba == pytest.approx(np.full((1, 3), 1 / 3))


@pytest.mark.parametrize("scale", [1, 15, 40, 1000])
def test_classes_that_are_all_certain_are_told_apart_by_their_scores(iris, scale):
    X, y = iris
    model = icgd.InContextLogisticRegression(lam=1e-3, tol=1e-3).fit(X, y)
    scores = model.decision_function(scale * X)
    assert (scores == scale * X @ model.coef_.T + model.intercept_).all()
    assert (model.predict(scale * X) == model.classes_[scores.argmax(axis=1)]).all()


def test_scores_of_two_classes_are_one_column(linear):
    X, y = linear
    model = icgd.InContextLogisticRegression().fit(X, y > 2)
    scores = model.decision_function(X)
    assert scores.shape == (60,)
    assert (model.predict(X) == (scores > 0)).all()
