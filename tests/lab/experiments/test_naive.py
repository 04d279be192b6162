"""Naive predictors against independent code, and the gate: nothing is chosen on prompts that models meet."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as SklearnRidge

from icgd.errors import InvalidFile
from icgd.lab.experiments.learned import Reference, best_of, best_reference, falls_short, shortfalls
from icgd.lab.experiments.measures import EVALUATION, evaluation_prompts
from icgd.lab.experiments.naive import (
    CONSTANT,
    LAYER,
    LINEAR,
    RAW,
    SELECTION,
    TOP,
    judged_positions,
    measure_naive,
    naive_families,
    second_moments,
    selection_prompts,
    top_direction,
)
from icgd.lab.sweeps.cells import Workplace
from icgd.lab.tasks import TaskConfig, build_task
from icgd.papers.deep.appendix_g.constant_networks import WIDTHS, share_not_constant

REGRESSION = {"name": "representation_regression", "n_dims": 3}
SERIES = {"name": "autoregression", "n_dims": 2, "order": 2}
CHAIN = {"name": "mlp_chain", "n_dims": 2, "n_layers": 2}
NETWORKS = {"name": "network_regression", "n_layers": 3, "hidden_layer_size": 8, "n_dims": 2}
POINTS, PROMPTS = 9, 40
every_task = pytest.mark.parametrize(
    "task", [REGRESSION, SERIES, CHAIN, NETWORKS], ids=lambda t: t["name"]
)


def measured(tmp_path, task, *, seed=0, last=2, until=POINTS, n_prompts=PROMPTS):
    place = Workplace(tmp_path)
    return measure_naive(
        place, task=task, n_points=POINTS, n_prompts=n_prompts, seed=seed, until=until, last=last
    )


def of(task):
    return build_task(TaskConfig.model_validate(task))


def raw_features(task, xs: np.ndarray) -> np.ndarray:
    """(n, p): inputs that a target depends on, written out position by position."""
    lags = task.get("order", 1)
    rows = []
    for t in range(len(xs)):
        parts = [xs[t - k] if t >= k else np.zeros_like(xs[0]) for k in range(lags)]
        rows.append(np.concatenate([*parts, [1.0]]))
    return np.stack(rows)


def fitted_by_sklearn(task, batches, means, penalty, position, period):
    """Predictions at one position, a fit by scikit-learn for every prompt."""
    counted = batches[0].counted
    made = []
    for batch in batches:
        for xs, ys in zip(batch.xs.double().numpy(), batch.ys.double().numpy(), strict=True):
            X, Y = raw_features(task, xs), ys - means.numpy()
            use = [
                j
                for j in range(position)
                if (counted is None or counted[j])
                and (period is None or (position - j) % period == 0)
            ]
            model = SklearnRidge(alpha=penalty, fit_intercept=False).fit(X[use], Y[use])
            made.append(model.predict(X[position : position + 1])[0] + means.numpy()[position])
    return np.stack(made)


@every_task
@pytest.mark.parametrize("seed", [0, 5])
def test_ridge_is_that_of_scikit_learn_on_raw_inputs(tmp_path, task, seed):
    row = measured(tmp_path, task, seed=seed)
    built = of(task)
    batches = evaluation_prompts(built, POINTS, PROMPTS, seed)
    targets = torch.cat([b.ys for b in batches]).double().numpy()
    others = selection_prompts(built, POINTS, PROMPTS, seed)
    means = torch.cat([b.ys for b in others]).double().mean(0)
    names = {RAW: None, **({LAYER: 3} if task is CHAIN else {})}
    for name, period in names.items():
        for position in row["judged"]:
            made = fitted_by_sklearn(task, batches, means, row["penalty"][name], position, period)
            error = float(((made - targets[:, position]) ** 2).mean())
            assert row["error"][name][position] == pytest.approx(error, rel=1e-5)
    # Outputs that the task admits, and no others.
    informed = {TOP} if task in (REGRESSION, SERIES) else set()
    assert set(row["error"]) == {CONSTANT, LINEAR, *names, *informed}


@every_task
def test_penalties_are_chosen_on_prompts_that_nothing_is_measured_on(tmp_path, task):
    row, built = measured(tmp_path, task), of(task)
    others = selection_prompts(built, POINTS, PROMPTS, 0)
    assert not any(
        torch.equal(a.xs, b.xs)
        for a in others
        for b in evaluation_prompts(built, POINTS, PROMPTS, 0)
    )
    assert 500_000 < SELECTION < SELECTION + 10**6 < EVALUATION
    targets = torch.cat([b.ys for b in others]).double()
    means = targets.mean(0)
    for name, family in naive_families(built, others).items():
        errors = {}
        for penalty in family.penalties:
            predict = family.member(penalty)
            made = torch.cat(
                [
                    predict(type(b)(b.xs.double(), b.ys.double() - means, b.kind, b.counted))
                    for b in others
                ]
            )
            off = (made + means - targets).square().mean((0, 2))
            errors[penalty] = float(off[row["judged"]].mean())
        assert row["penalty"][name] == min(errors, key=errors.get)
        assert row["selection"][name] == pytest.approx(min(errors.values()), rel=1e-6)


@every_task
def test_the_constant_has_no_r2_and_errors_are_relative_to_the_targets(tmp_path, task):
    row = measured(tmp_path, task, n_prompts=400)
    targets = torch.cat([b.ys for b in evaluation_prompts(of(task), POINTS, 400, 0)]).double()
    unit = targets.square().mean((0, 2))
    for position in row["judged"]:
        assert abs(row["r2"][CONSTANT][position]) < 0.1
        for name, errors in row["error"].items():
            relative = row["relative"][name][position]
            assert relative == pytest.approx(errors[position] / float(unit[position]))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_top_direction_is_the_best_of_many(seed):
    built = of({**REGRESSION, "n_dims": 4})
    prompts = selection_prompts(built, POINTS, 200, seed)
    direction, moments = top_direction(built, prompts), second_moments(built, prompts)
    kept = float((direction.mT @ moments @ direction).squeeze())
    others = torch.randn(4, 500, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    others /= others.norm(dim=0)
    assert kept >= float((others * (moments @ others)).sum(0).max()) - 1e-12
    assert float(direction.norm()) == pytest.approx(1.0)


def test_phi_of_the_laptop_scale_is_nearly_one_number():
    """Why ridge that knows one direction is hard to beat there, and not at the paper's d = 20."""
    shares = {}
    for d in (5, 20):
        built = of({"name": "representation_regression", "n_dims": d})
        values = torch.linalg.eigvalsh(second_moments(built, selection_prompts(built, 12, 1000, 0)))
        shares[d] = (values / values.sum()).flip(0).tolist()
    assert shares[5][:3] == pytest.approx([0.979, 0.013, 0.005], abs=0.002)
    assert shares[20][0] < 0.75


@pytest.mark.parametrize(
    ("task", "until", "last", "places"),
    [
        (REGRESSION, 9, 3, [6, 7, 8]),
        (REGRESSION, 5, 1, [4]),
        (SERIES, 9, 2, [7, 8]),
        (CHAIN, 9, 3, [4, 6, 7]),
    ],
)
def test_models_are_judged_at_the_last_counted_positions(task, until, last, places):
    """Position 8 of a chain of 3 tokens is followed by a new start, as are 2 and 5."""
    (batch,) = evaluation_prompts(of(task), POINTS, 8, 0)
    assert judged_positions(batch, until, last) == places


# -- the gate ----------------------------------------------------------------------------------------------


def test_errors_above_the_margin_fall_short_and_those_within_it_do_not():
    ridge = Reference("ridge", [1.0] * 3)
    assert shortfalls({"a": [1.0, 0.5, 1.019]}, ridge) == ()
    assert shortfalls({"a": [1.0, 0.5, 1.03], "b": [0.1] * 3}, ridge) == (
        "a: 1 (0.5..1.03) against 1 of ridge",
    )
    r2 = Reference("ridge", [0.6] * 3, is_r2=True)
    assert shortfalls({"a": [0.6, 0.591, 0.9]}, r2) == ()
    assert len(shortfalls({"a": [0.6, 0.589, 0.9]}, r2)) == 1


@pytest.mark.parametrize("is_r2", [True, False])
def test_what_must_be_beaten_must_be_beaten_by_the_margin(is_r2):
    beaten = Reference("blind", [], is_r2=is_r2, to_be_beaten=True)
    matched = Reference("blind", [], is_r2=is_r2)
    sign = 1 if is_r2 else -1
    for ahead, short in ((0.0, True), (0.005, True), (0.05, False), (-0.05, True)):
        assert falls_short(1 + sign * ahead, 1.0, beaten) is short
    assert not falls_short(1.0, 1.0, matched)


def test_overflow_falls_short_and_a_missing_number_decides_nothing():
    ridge = Reference("ridge", [])
    assert falls_short(math.inf, 1.0, ridge)
    assert not falls_short(math.nan, 1.0, ridge)
    assert not falls_short(1.0, math.nan, ridge)


def test_the_reference_is_chosen_on_other_prompts_not_on_the_measured_ones():
    rows = [
        {
            "predictor": "naive",
            "seed": seed,
            "judged": [1, 2],
            "selection": {"a": 0.3, "b": 0.2},
            "error": {"a": [9.0, 0.1, 0.1], "b": [9.0, 0.4, 0.6]},
        }
        for seed in range(3)
    ]
    assert best_reference(rows, "error") == Reference("b", [0.5] * 3)
    with pytest.raises(InvalidFile, match="icgd reproduce"):
        best_reference([{"model": "a"}], "error")


def test_the_best_of_recorded_references():
    low, high = (Reference(name, [v] * 3) for name, v in (("low", 0.1), ("high", 0.9)))
    assert best_of([low, high]) is low
    low, high = (Reference(r.name, r.values, is_r2=True) for r in (low, high))
    assert best_of([low, high]) is high


# -- ReLU networks that a negative shift leaves alive ---------------------------------------------------------


@pytest.mark.parametrize("d", [5, 20])
def test_only_wide_networks_die_of_the_shift(d):
    shares = [share_not_constant(d, width, networks=100, seed=1) for width in WIDTHS]
    assert shares[0] > 0.65
    assert shares[1] > 0.6
    assert shares[-1] == 0.0
    assert shares[1:] == sorted(shares[1:], reverse=True)
    # A slope keeps all of them, and so does no shift.
    assert share_not_constant(d, 200, networks=50, slope=0.1) == 1.0
    assert share_not_constant(d, 200, networks=50, mean=0.0) == 1.0


def test_the_share_is_that_of_networks_written_out():
    """Drawn one by one with numpy: no code in common."""
    source, alive, n = np.random.default_rng(0), 0, 300
    for _ in range(n):
        hidden = source.normal(-2.0, 1.0, (64, 20))
        for out in (20, 20, 20):
            hidden = np.maximum(hidden @ source.normal(-0.5, 1.0, (hidden.shape[1], out)), 0.0)
        outputs = hidden @ source.normal(-0.5, 1.0, (20, 1))
        alive += outputs.std() > 1e-6 * abs(outputs).max()
    # Two samples of 300: their difference has a deviation of 0.037.
    assert share_not_constant(20, 20, networks=300) == pytest.approx(alive / n, abs=0.12)
