"""Shallow and deep networks: what is written down keeps its law, what is trained learns, counts agree."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import icgd
from icgd.errors import InvalidParameter
from icgd.lab.sweeps.cells import Workplace
from icgd.papers.bridge.experiment.depth import (
    AS_EXACT,
    BALL,
    F64,
    FOLDED,
    METHODS,
    SHALLOW,
    SMOOTH,
    TARGETS,
    draw_cube,
    hidden_widths,
    resources,
    shallow_square,
    shallow_units,
    smooth_product,
    squares,
    train_network,
    trained,
    widest_ball,
    written_balls,
)
from icgd.papers.bridge.experiment.experiment import log_saving
from icgd.papers.bridge.statements.networks import ball_network, draw, in_ball

HERE = Workplace(Path())


# -- written down ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "segments", "ramp"), [(2, 3, 0.1), (10, 16, 0.02)])
def test_the_ball_is_squares_between_knots_and_a_ramp(d, segments, ramp):
    """The network against its own formula, by numpy."""
    x = draw("radial", 500, d, 0)
    h = math.sqrt(2) / segments
    at = h * np.arange(segments + 1)
    size = np.abs(x.numpy())
    beyond = at[-1] ** 2 + (size - at[-1]) * (2 * segments - 1) * h
    q = np.where(size <= at[-1], np.interp(size, at, at**2), beyond).sum(axis=1) - d * h * h / 8
    expected = np.clip((1 + ramp - q) / (2 * ramp), 0, 1)
    np.testing.assert_allclose(ball_network(d, segments, ramp)(x), expected, atol=1e-10)


def test_written_balls_are_the_indicator_away_from_its_edge():
    d, segments, ramp = 10, 32, 0.02
    x = draw("radial", 2000, d, 1)
    clear = (x.square().sum(dim=1) - 1).abs() > ramp + d / (4 * segments**2)
    made = ball_network(d, segments, ramp)(x)
    torch.testing.assert_close(made[clear], in_ball(x)[clear])
    assert float(clear.double().mean()) > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_written_balls_keep_what_they_were_written_for_and_no_more(seed):
    """At fresh points; wider networks for smaller errors and for more dimensions."""
    deltas = [0.3, 0.03, 0.01]
    row = written_balls(HERE, dimensions=[5, 20], deltas=deltas, seed=seed)
    for errors in row["error"].values():
        for error, delta in zip(errors, deltas, strict=True):
            assert error < delta
    # No larger than need be: with half as many squares and the ramp that goes with them it is missed.
    x, d = draw("radial", 5000, 5, 3), 5
    made = widest_ball(0.01, x)
    half = made.widths[1] // (2 * d) // 2
    coarse = ball_network(d, half, d / (4 * half**2))
    errors = [float((net(x) - in_ball(x)).square().mean()) for net in (made, coarse)]
    assert errors[0] < 0.01 < errors[1]
    with pytest.raises(InvalidParameter, match="delta"):
        widest_ball(0.0, x)
    units = {d: [count["widths"][1] for count in row["resources"][d]] for d in row["error"]}
    for found in units.values():
        assert found == sorted(found)
        assert found[0] < found[-1]
    assert units["d = 5"][-1] < units["d = 20"][-1]
    counted = row["resources"]["d = 5"][0]
    widths = tuple(counted["widths"])
    assert widths[0::2] == (5, 2)
    assert counted["heads"] == sum(icgd.cost(icgd.Network(widths), "forward_mode").heads)


@pytest.mark.parametrize("units", [1, 2, 7, 46])
def test_one_hidden_layer_for_a_square_errs_by_its_law(units):
    x = torch.linspace(0, 1, 64 * units + 1, dtype=F64)
    error = float((shallow_square(x, units) - x * x).abs().max())
    assert error == pytest.approx(1 / (8 * units**2), rel=1e-9)


def test_folds_err_by_their_law_at_any_points_and_depth_wins_from_some_on():
    row = squares(HERE, folds=[1, 2, 4, 6, 8], test_points=2000, seed=0)
    for m, folded, flat, units, as_exact in zip(
        row["folds"],
        row["error"][FOLDED],
        row["error"][SHALLOW],
        row["units_of"][FOLDED],
        row["error"][AS_EXACT],
        strict=True,
    ):
        assert 0.97 * 4.0 ** -(m + 1) < folded < (1 + 1e-9) * 4.0 ** -(m + 1)
        assert 0.97 / (8 * units**2) < flat < (1 + 1e-9) / (8 * units**2)
        assert (folded < flat) is (m >= 6)
        assert as_exact > 0.99 * folded  # no more exact, so that its price is not too high
    assert shallow_units(1) == 1


def test_the_shallow_price_doubles_where_the_deep_one_grows_slowly():
    row = squares(HERE, folds=[8, 9, 16], test_points=50, seed=0)
    flat, deep = row["matrices_of"][AS_EXACT], row["matrices_of"][FOLDED]
    assert flat[1] / flat[0] == pytest.approx(2, rel=0.02)
    assert deep[1] / deep[0] < 1.4
    assert flat[0] < deep[0]
    assert flat[2] > deep[2]


# -- trained ---------------------------------------------------------------------------------------------


def test_targets_are_what_they_are_called():
    x = draw_cube(50, 4, 0)
    assert (x.abs() <= 1).all()
    a, b, c, d = x.numpy().T
    expected = np.sin(np.pi * a) * np.sin(np.pi * b) * np.exp(-c * c - d * d)
    np.testing.assert_allclose(smooth_product(x), expected, atol=1e-14)
    y = TARGETS[BALL].draw(4000, 0)
    assert y.shape == (4000, 6)
    assert float(TARGETS[BALL].value(y).mean()) == pytest.approx(0.5, abs=0.04)


def test_a_training_beats_the_best_constant_and_is_the_same_again():
    state = torch.random.get_rng_state()
    row = trained(HERE, target=BALL, layers=2, units=16, steps=150, seed=0)
    assert row["widths"] == [6, 8, 8, 1]
    assert row["error"][BALL][0] < 0.15  # the variance is 0.25
    assert trained(HERE, target=BALL, layers=2, units=16, steps=150, seed=0) == row
    assert trained(HERE, target=BALL, layers=2, units=16, steps=150, seed=1) != row
    assert torch.equal(torch.random.get_rng_state(), state)


def test_every_step_has_a_batch_of_its_own(monkeypatch):
    """More batches than are drawn at a time: none comes twice."""
    monkeypatch.setattr("icgd.papers.bridge.experiment.depth.DRAWN", 2)
    seen = []
    target = TARGETS[SMOOTH]
    watched = type(target)(target.d, lambda x: seen.append(x) or target.value(x), target.draw)
    train_network((4, 3, 1), watched, 5, 0)
    assert [len(x) for x in seen] == [256] * 5
    assert len({float(x[0, 0]) for x in seen}) == 5


# -- counts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("widths", [(6, 12, 1), (6, 6, 6, 1), (4, 4, 4, 4, 1)])
def test_counts_are_the_calculators(widths):
    found = resources(widths)
    for method in METHODS:
        made = icgd.cost(icgd.Network(widths), method)
        layers = {"forward_mode": len(widths) - 1, "stack": 2 * len(widths) + 2, "cot": 1}
        assert found[method]["layers"] == made.layers == layers[method]
        assert found[method]["heads"] == sum(made.heads)
        assert (found[method]["matrices"] - 3 * sum(made.heads)) in range(2, 2 * made.layers + 4, 2)
        assert found[method]["nonzeros"] == made.nonzeros


def test_depth_at_equal_units_is_dear_for_one_construction_and_free_or_cheap_for_others():
    flat, deep = (resources((6, *hidden_widths(48, n), 1)) for n in (1, 2))
    assert deep["forward_mode"]["matrices"] > 10 * flat["forward_mode"]["matrices"]
    assert deep["stack"]["heads"] == flat["stack"]["heads"]
    assert deep["cot"]["matrices"] < flat["cot"]["matrices"]


def test_savings_are_at_the_accuracy_of_the_best_shallow_network():
    flat = [(0.5, 10.0), (0.1, 100.0)]
    assert log_saving(flat, [(0.1, 50.0), (0.05, 80.0)]) == pytest.approx(math.log(2))
    assert log_saving(flat, [(0.2, 1.0), (0.05, 200.0)]) == pytest.approx(-math.log(2))
    assert log_saving(flat, [(0.2, 1.0)]) == -math.inf
    # The least deep network that was tried is accurate enough and too dear: a smaller one might do.
    assert math.isnan(log_saving(flat, [(0.05, 200.0), (0.01, 400.0)]))
    assert math.isnan(log_saving(flat, [(math.nan, 1.0), (0.01, 1.0)]))
