"""The rows of [BRIDGE] on balls, smooth functions and units, and the networks they run."""

from __future__ import annotations

import math

import pytest
import torch

from icgd.papers.bridge.statements import fits as bridge_fits
from icgd.papers.bridge.statements import resources as bridge_resources
from icgd.papers.bridge.statements.counts import reverse_matrices
from icgd.papers.bridge.statements.networks import (
    ball_network,
    ball_network_for,
    draw,
    folded_product,
    folded_square,
    folded_units,
    in_ball,
    n_pieces,
    product_units,
    taylor_network,
    train_ball,
)
from icgd.papers.bridge.statements.orders import deep_ball_width
from icgd.papers.theorem_table import Row
from icgd.transformer.gadgets.fits.decay_condition import combination, decay_condition
from icgd.transformer.gadgets.fits.feature_fit import fit_features

HOLDS = (
    bridge_resources.lemma_1,
    bridge_resources.lemma_2,
    bridge_resources.lemma_3,
    bridge_resources.lemma_4,
)


def passed(row: Row, verdict: str) -> Row:
    assert row.passed, row
    assert row.printed_verdict == verdict
    assert row.counterexample
    return row


@pytest.mark.parametrize("checker", HOLDS, ids=lambda c: c.__name__)
def test_what_holds_says_what_was_not_shown(checker) -> None:
    row = passed(checker(), "holds")
    assert "ot shown" in row.counterexample or checker is bridge_resources.lemma_2


def test_zero_is_a_combination_of_units() -> None:
    row = passed(bridge_fits.definition_3(), "reading")
    assert "exp and linear refused" in row.corrected
    assert bridge_fits.affine_floor() > 0.9
    assert bridge_fits.refused("exp")
    assert not bridge_fits.refused("relu")


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "relu"])
def test_sums_that_decay_and_are_not_zero(name: str) -> None:
    """Read with a nu that is not zero, the condition holds, and sums of units follow cos(3t)."""
    decay = decay_condition(name)
    assert decay.proven is not None
    t = torch.linspace(-1000, 1000, 200_001, dtype=torch.float64)
    nu = combination(name, decay, t)
    assert float(nu.abs().max()) > 0.1
    assert float((nu.abs() * (1 + t.abs()) ** decay.power).max()) <= decay.proven * (1 + 1e-9)
    errors = [
        fit_features(lambda p: torch.cos(3 * p[..., 0]), (1.0,), n, name).certificate.sup_error
        for n in (12, 48)
    ]
    assert errors[1] < errors[0] * (12 / 48) ** 0.5  # the rate n^-1/2
    assert errors[1] < 0.05 < bridge_fits.affine_floor()


def test_tanh_has_no_finite_barron_norm() -> None:
    passed(bridge_fits.assumption_1(), "false")
    w = torch.tensor([0.1, 1.0, 3.0], dtype=torch.float64)
    closed = 1 / (2 * torch.sinh(math.pi * w / 2))
    assert torch.allclose(bridge_fits.tanh_spectrum(w), closed, rtol=1e-9)


def test_units_in_sup_norm() -> None:
    row = passed(bridge_fits.lemma_5(), "reading")
    assert "L2 only" in row.counterexample


def test_the_cost_of_balls() -> None:
    row = passed(bridge_resources.theorem_3(), "holds")
    assert row.errata == ()
    # Every trained network of three layers errs less than every shallow one, and costs less.
    deep, shallow = (
        bridge_resources.trained_balls(w)
        for w in (bridge_resources.DEEP, bridge_resources.SHALLOW[1])
    )
    assert len(deep) == len(shallow) == 3
    assert max(deep) < min(shallow)
    assert reverse_matrices(bridge_resources.DEEP, 1, 2) < reverse_matrices((6, 256, 1), 1, 2) / 5


def test_the_cost_of_smooth_functions() -> None:
    row = passed(bridge_resources.theorem_4(), "holds")
    assert row.errata == ()
    assert bridge_resources.condition_decides()


@pytest.mark.parametrize("broken", ["theorem_3", "theorem_4"])
def test_a_stack_that_grew_like_the_square_would_fail(broken, monkeypatch) -> None:
    right_matrices, right_orders = bridge_resources.reverse_matrices, bridge_resources.smooth_orders
    monkeypatch.setattr(
        bridge_resources, "reverse_matrices", lambda w, *units: right_matrices(w, *units) ** 2
    )
    monkeypatch.setattr(
        bridge_resources,
        "smooth_orders",
        lambda e, d, n, depth, form: right_orders(
            e, d, n, depth, "forward_mode" if form == "stack" else form
        ),
    )
    row = getattr(bridge_resources, broken)()
    assert row.printed_verdict == "false"
    assert not row.passed


def test_lemma_1_is_not_contradicted_and_no_more() -> None:
    row = passed(bridge_resources.lemma_1(), "holds")
    assert row.counterexample.startswith("not contradicted")
    assert "three seeds" in row.counterexample


# -- networks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "segments"), [(1, 1), (1, 7), (4, 2), (4, 9), (15, 3), (15, 40)])
def test_a_ball_network_is_exact_off_its_ramp(d: int, segments: int) -> None:
    ramp = 0.05
    network = ball_network(d, segments, ramp)
    assert network.widths == (d, 2 * d * segments, 2, 1)
    x = torch.cat([draw(measure, 3000, d, seed=2) for measure in ("radial", "gauss", "heavy")])
    q = x.square().sum(dim=1)
    gap = ramp + d / (4 * segments**2)
    assert gap <= 1
    off = (q - 1).abs() > gap + 1e-12
    value = network(x)
    assert float((value - in_ball(x))[off].abs().max()) <= 1e-9
    assert float(value.min()) >= -1e-9
    assert float(value.max()) <= 1 + 1e-9


@pytest.mark.parametrize("measure", ["radial", "gauss", "heavy"])
def test_three_layers_reach_delta_with_far_fewer_units(measure: str) -> None:
    for delta in (0.2, 0.02):
        network = ball_network_for(delta, draw(measure, 4000, 8, seed=0))
        fresh = draw(measure, 4000, 8, seed=1)
        assert float((network(fresh) - in_ball(fresh)).square().mean()) <= delta
        assert network.widths[1] < deep_ball_width(delta, 8) / 10


def test_training_is_repeatable_and_learns() -> None:
    x = draw("radial", 2000, 3, seed=0)
    spread = float(in_ball(x).var())
    first, second = (train_ball((3, 16, 16, 1), x, steps=150, seed=4) for _ in range(2))
    assert torch.equal(first(x), second(x))
    assert float((first(x) - in_ball(x)).square().mean()) < spread / 2


@pytest.mark.parametrize("m", range(1, 10))
def test_folding_squares(m: int) -> None:
    x = torch.linspace(0, 1, 2 ** (m + 5) + 1, dtype=torch.float64)
    error = (folded_square(x, m) - x * x).abs().max()
    assert float(error) == 4.0 ** -(m + 1)
    assert n_pieces(lambda t: folded_square(t, m)) == 2**m
    assert folded_units(m) == 3 * m + 1


def test_folding_products() -> None:
    x, y = (
        2 * torch.rand(2, 5000, generator=torch.Generator().manual_seed(0)).double() - 1
    ).unbind()
    for m in (2, 6):
        assert float((folded_product(x, y, m) - x * y).abs().max()) <= 4.0**-m
        assert not folded_product(torch.zeros_like(y), y, m).any()
        assert product_units(m) == 9 * (m + 1)


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-5])
def test_local_taylor_polynomials(eps: float) -> None:
    x = torch.rand(4000, generator=torch.Generator().manual_seed(0)).double()
    network = taylor_network(bridge_resources.SINE, eps)
    error = float((network(x) - x.sin()).abs().max())
    assert eps / 100 < error <= eps
    # Without folding enough the products spoil it: the count is not slack.
    fewer = type(network)(network.values, network.cells, max(1, network.folds // 2))
    assert float((fewer(x) - x.sin()).abs().max()) > error


def test_pieces_are_counted() -> None:
    assert n_pieces(lambda x: 2 * x) == 1
    assert n_pieces(lambda x: torch.relu(x - 0.3) + torch.relu(x - 0.7001)) == 3
