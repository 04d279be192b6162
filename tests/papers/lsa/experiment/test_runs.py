"""Linear attention that is trained on gradient descent: model, losses and what they come to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special

from icgd.lab.sweeps.cells import Workplace
from icgd.lab.training.trainer import data_generator
from icgd.papers.lsa.experiment.chain_model import (
    ChainModel,
    chain_loss,
    descent,
    fit,
    legendre_prompts,
    outcome_loss,
    recovery,
)
from icgd.papers.lsa.experiment.runs import (
    EVALUATION,
    train_chain,
    train_looped,
    train_one_step,
    train_softmax,
)
from icgd.papers.lsa.statements.cases import Prompts, cot_layer, cot_loss, gaussian_prompts
from icgd.papers.lsa.statements.formulas import one_step_floor

SIZES = [(1, 1, 1), (1, 4, 3), (3, 2, 2), (4, 10, 5)]
sizes = pytest.mark.parametrize(("d", "n", "k"), SIZES)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def model(d, start="construction", seed=0, **options):
    return ChainModel(d, start, generator(seed), **options)


@sizes
def test_descent_is_that_of_autograd(d, n, k):
    given = gaussian_prompts(3, n, d, generator())
    path = descent(given, 0.3, k)
    for b in range(3):
        w = torch.zeros(d, dtype=torch.float64, requires_grad=True)
        for i in range(k):
            loss = (given.X[b] @ w - given.y[b]).square().mean() / 2
            (gradient,) = torch.autograd.grad(loss, w)
            w = (w - 0.3 * gradient).detach().requires_grad_(True)
            torch.testing.assert_close(path[b, i + 1], w.detach())


@sizes
def test_the_layer_is_the_formula_token_by_token(d, n, k):
    """f(Z) = Z + V Z Z^T W Z / n on the prompt up to each token of the chain."""
    given, layer = gaussian_prompts(2, n, d, generator()), model(d, "random", 3)
    chain = layer.chain_tokens(torch.randn(2, k, d, generator=generator(1), dtype=torch.float64))
    made = layer.next_tokens(given, chain)
    for b in range(2):
        for i in range(k):
            Z = torch.cat([layer.data_tokens(given)[b], chain[b, : i + 1]]).T
            exact = Z + layer.V @ Z @ (Z.T @ layer.W @ Z) / n
            torch.testing.assert_close(made[b, i], exact[:, -1])


@sizes
def test_the_construction_writes_descent_down(d, n, k):
    given, layer = gaussian_prompts(5, n, d, generator()), model(d)
    with torch.no_grad():
        layer.V.mul_(0.3)  # the step size
        exact = descent(given, 0.3, k)
        assert float(chain_loss(layer, given, 0.3, k)) < 1e-25
        torch.testing.assert_close(layer.roll_out(given, k), exact)
        torch.testing.assert_close(layer.loop(given, k), exact[:, -1])
        assert float(outcome_loss(layer, given, k)) == pytest.approx(
            float(recovery(exact[:, -1], given).mean())
        )
        # The last target w* is missed by what descent is away from it.
        missed = chain_loss(layer, given, 0.3, k, last_is_target=True)
        assert float(missed) == pytest.approx(float(recovery(exact[:, -1], given).mean()))


@sizes
def test_the_loss_of_all_steps_at_once_is_that_of_one_after_the_other(d, n, k):
    """The verification's loss writes the chain down token by token; here all its steps are one product."""
    given, layer, other = (
        gaussian_prompts(4, n, d, generator()),
        model(d, "random", 5),
        cot_layer(d, n, 0.3),
    )
    with torch.no_grad():
        other.V.copy_(layer.V)
        other.W.copy_(layer.W)
        torch.testing.assert_close(chain_loss(layer, given, 0.3, k), cot_loss(other, given, 0.3, k))


def test_scale_is_no_property_of_the_model():
    given, layer = gaussian_prompts(4, 5, 3, generator()), model(3, "random")
    with torch.no_grad():
        before = layer.roll_out(given, 3)
        layer.V.mul_(4.0)
        layer.W.div_(4.0)
        torch.testing.assert_close(layer.roll_out(given, 3), before)


@pytest.mark.parametrize("start", ["spectral", "ill-conditioned"])
def test_starts_with_common_eigenvectors_and_nothing_else(start):
    layer = model(6, start)
    V, W = layer.V31.detach(), layer.W13.detach()
    torch.testing.assert_close(V @ W, W @ V)
    assert float(torch.linalg.eigvalsh(-V).min()) > 0
    assert float(torch.linalg.eigvalsh(W).min()) > 0
    kept = torch.zeros_like(layer.V)
    kept[layer.w.unsqueeze(1), layer.x] = 1.0
    assert torch.equal(layer.V * (1 - kept), torch.zeros_like(kept))
    condition = float(torch.linalg.cond(W))
    assert condition > 100 if start == "ill-conditioned" else condition < 4


@pytest.mark.parametrize("d", [1, 3, 10])
def test_features_of_polynomials_are_those_of_scipy_of_variance_one(d):
    X = legendre_prompts(200, 2000, d, generator()).X.flatten(0, 1)
    second = X.T @ X / len(X)
    torch.testing.assert_close(second, torch.eye(d, dtype=torch.float64), atol=0.03, rtol=0)
    x = X[:, 0].numpy() / 3**0.5
    for k in range(1, d + 1):
        expected = (2 * k + 1) ** 0.5 * special.eval_legendre(k, x)
        np.testing.assert_allclose(X[:, k - 1], expected, atol=1e-10)


def test_what_is_not_free_does_not_move():
    given, layer = gaussian_prompts(8, 6, 3, generator()), model(3, "random")
    layer.only_blocks()
    before = (layer.V.detach().clone(), layer.W.detach().clone())
    for _ in fit(layer, lambda _: chain_loss(layer, given, 0.3, 2), steps=5, rate=0.1):
        pass
    for now, then, free in zip(
        (layer.V, layer.W), before, (layer.free_V, layer.free_W), strict=True
    ):
        moved = (now.detach() - then).abs()
        assert float((moved * (1 - free)).max()) == 0
        assert float((moved * free).max()) > 0.01


@pytest.mark.parametrize("part", [0.1, 10.0])
def test_long_gradients_are_cut_and_short_ones_are_not(part):
    """One step of plain descent is as long as its gradient, or as what it is cut to."""
    given, layer = gaussian_prompts(8, 6, 3, generator()), model(3, "random")
    before = torch.cat([layer.V.detach().flatten(), layer.W.detach().flatten()])
    loss = chain_loss(layer, given, 0.3, 2)
    of_V, of_W = torch.autograd.grad(loss, [layer.V, layer.W])
    gradient = torch.cat([(of_V * layer.free_V).flatten(), (of_W * layer.free_W).flatten()])
    clip, rate = part * float(gradient.norm()), 1e-3
    for _ in fit(
        layer,
        lambda _: chain_loss(layer, given, 0.3, 2),
        steps=1,
        rate=rate,
        optimizer="gd",
        clip=clip,
    ):
        pass
    after = torch.cat([layer.V.detach().flatten(), layer.W.detach().flatten()])
    torch.testing.assert_close(
        before - after, rate * min(part, 1) * gradient, rtol=1e-4, atol=1e-12
    )


def test_a_loss_that_explodes_stops_moving_and_is_told():
    layer, losses, weights = model(2, "random"), [], []
    for look in fit(
        layer,
        lambda s: chain_loss(layer, gaussian_prompts(4, 4, 2, generator(s)), 0.3, 2),
        steps=60,
        rate=50.0,
        optimizer="gd",
        every=1,
    ):
        losses.append(look.loss)
        weights.append(layer.V.detach().clone())
    assert len(losses) == 61
    (lost, *_) = [step for step, loss in enumerate(losses) if not math.isfinite(loss)]
    assert 0 < lost < 60
    torch.testing.assert_close(weights[-1], weights[lost], rtol=0, atol=0, equal_nan=True)
    assert not torch.equal(weights[lost], weights[lost - 1])


def test_targets_that_do_not_speak_keep_their_column():
    given, layer = gaussian_prompts(8, 6, 3, generator()), model(3, "random")
    layer.without_targets()
    before = layer.V.detach().clone()
    for _ in fit(layer, lambda _: chain_loss(layer, given, 0.3, 2), steps=5, rate=0.1):
        pass
    moved = (layer.V.detach() - before).abs().amax(0)
    assert float(moved[layer.y]) == 0
    assert float(moved[layer.x].min()) > 0.01


def test_early_steps_are_looked_at_more_often():
    layer = model(1, "spectral")
    given = gaussian_prompts(2, 3, 1, generator())
    for early, steps in ((200, [*range(0, 201, 5), 250, 300, 330]), (0, [*range(0, 301, 50), 330])):
        looks = fit(
            layer,
            lambda _: chain_loss(layer, given, 0.3, 1),
            steps=330,
            rate=1e-3,
            every=50,
            early=early,
        )
        assert [look.step for look in looks] == steps


def chain_options(**changed):
    return {
        "d": 3,
        "n": 10,
        "k": 4,
        "lr": 0.4,
        "start": "spectral",
        "optimizer": "adam",
        "rate": 2e-2,
        "steps": 500,
        "batch": 64,
        "seed": 0,
        "prompts": 200,
        **changed,
    }


@pytest.mark.parametrize("start", ["spectral", "ill-conditioned"])
def test_training_on_the_chain_finds_descent_in_function(tmp_path, start):
    told = train_chain(Workplace(tmp_path), **chain_options(start=start, eigenvalues=True))
    assert told["loss"] < 1e-5
    ours, exact = told["mean"]
    assert ours == pytest.approx(exact, rel=0.01)
    assert told["off"][0] < 0.05
    assert told["blocks"]["V31"] < 0.01
    assert len(told["eigenvalues"]) == len(told["watched"])
    assert told["eigenvalues"][-1][0] == pytest.approx([-0.4] * 3, rel=0.02)


def test_prompts_under_another_covariance_are_told_apart_by_stability(tmp_path):
    spectra = {"same": [1.0] * 3, "large": [9.0] * 3}
    told = train_chain(Workplace(tmp_path), **chain_options(spectra=spectra, shifted_n=300))[
        "shifts"
    ]
    assert told["same"]["unstable"] == 0.0
    assert told["large"]["unstable"] == 1.0
    ours, exact = told["same"]["stable"]["mean"]
    assert ours == pytest.approx(exact, rel=0.05)
    assert told["large"]["diverging"]["mean"][1] > told["large"]["diverging"]["start"]


def test_a_pool_of_prompts_is_drawn_once(tmp_path, monkeypatch):
    """Twice: the pool, and what is tested on; without a pool, for every step and the test."""
    from icgd.papers.lsa.experiment import runs as lsa_runs

    asked = []

    def counting(count, *rest):
        asked.append(count)
        return gaussian_prompts(count, *rest)

    monkeypatch.setitem(lsa_runs.DRAWN, "gaussian", counting)
    train_chain(Workplace(tmp_path), **chain_options(fixed_prompts=7, steps=20))
    assert asked == [7, 200]
    asked.clear()
    train_chain(Workplace(tmp_path), **chain_options(steps=20))
    assert asked == [64] * 21 + [200]


def test_without_a_chain_the_best_is_one_step(tmp_path):
    told = train_one_step(
        Workplace(tmp_path), d=2, n=6, rate=2e-2, steps=400, batch=256, seed=0, prompts=20_000
    )
    assert told["mean"][0] == pytest.approx(one_step_floor(2, 6), rel=0.05)
    assert told["rate"][0] == pytest.approx(told["rate"][1], rel=0.05)


def test_losses_of_recovery_by_hand():
    given = Prompts(torch.zeros(1, 2, 2, dtype=torch.float64), torch.tensor([[3.0, 4.0]]).double())
    assert recovery(torch.zeros(1, 2), given).tolist() == [12.5]


def test_a_loop_trained_on_its_outcome_is_no_worse_than_descent(tmp_path):
    """Every step size of descent is among its weights."""
    told = train_looped(
        Workplace(tmp_path),
        d=2,
        n=12,
        k=3,
        rates=[0.3, 0.5, 0.7],
        rate=3e-2,
        clip=10.0,
        steps=300,
        batch=64,
        seed=0,
        prompts=500,
    )
    ours, descents = told["mean"]
    assert ours < 1.02 * descents
    assert 0.3 < told["learned_rate"] < 1.2


def test_a_softmax_layer_learns_a_chain_and_is_held_against_descent(tmp_path):
    options = {
        "d": 2,
        "n": 8,
        "k": 3,
        "lr": 0.4,
        "width": 16,
        "heads": 2,
        "hidden": 32,
        "rate": 5e-3,
        "batch": 32,
        "seed": 0,
        "prompts": 300,
    }
    little, more = (
        train_softmax(Workplace(tmp_path), steps=steps, **options) for steps in (2, 400)
    )
    fresh = gaussian_prompts(300, 8, 2, data_generator(0, EVALUATION))
    exact = [float(recovery(w, fresh).mean()) for w in descent(fresh, 0.4, 3).unbind(1)]
    for told in (little, more):
        assert told["by_step"][1] == pytest.approx(exact)
        assert told["by_step"][0][0] == pytest.approx(exact[0])  # from w = 0
    assert more["by_step"][0][-1] < 0.7 * little["by_step"][0][-1]
    assert more["watched"][-1][1] < more["watched"][0][1]
