"""Bad input of linear models: a typed error that names the thing, its value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import icgd

X = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)


def ridge(**options: Any) -> icgd.Program:
    return icgd.compile(icgd.Ridge(2, 0.1), icgd.GD(0.1), **options)


def glm(link: str, **options: Any) -> icgd.Program:
    return icgd.compile(icgd.GLM(2, link), icgd.GD(0.1), **options)


NAN = torch.tensor([1.0, float("nan"), 0.0])

CASES: dict[str, tuple[Callable[[], object], str]] = {
    "no features": (lambda: icgd.Ridge(0), "`n_features` must be an integer >= 1. Got 0"),
    "lam < 0": (lambda: icgd.Lasso(2, -0.5), "`lam` must be >= 0. Got -0.5"),
    "lam nan": (lambda: icgd.Ridge(2, float("nan")), "`lam` must be a finite number"),
    "link": (lambda: icgd.GLM(2, "probit"), "`link` must be one of .*logistic"),
    "loss": (lambda: icgd.LinearModel(2, "l1"), "`loss` must be one of .*huber"),
    "loss type": (lambda: icgd.LinearModel(2, 3), "`loss` must be one of"),  # type: ignore[arg-type]
    "reserved name": (
        lambda: icgd.residual_loss(torch.cosh, name="squared"),
        "`name` must not be that of a built-in loss",
    ),
    "not a torch function": (
        lambda: icgd.compile(icgd.GLM(2, lambda s: float(s.sum())), icgd.GD(0.1)),  # type: ignore[arg-type]
        "`loss` must be a function of torch tensors",
    ),
    "infinite slope": (
        lambda: icgd.compile(icgd.GLM(2, torch.log), icgd.GD(0.1)),
        "`loss` must have a finite slope",
    ),
    "useless certificate": (
        lambda: icgd.compile(
            icgd.LinearModel(2, icgd.residual_loss(lambda r: r.abs() ** 1.5)), icgd.GD(0.1)
        ),
        "cannot be read off this grid|finite slope",
    ),
    "auto without y_radius": (
        lambda: icgd.compile(
            icgd.LinearModel(
                2, icgd.joint_loss(lambda s, y: (y * s) ** 2), x_radius=1.0, w_radius=1.0
            ),
            icgd.GD(),
        ),
        "needs y_radius",
    ),
    "delta": (lambda: icgd.huber(0.0), "`delta` must be a finite number > 0"),
    "x_radius": (lambda: icgd.Ridge(2, x_radius=-1.0), "`x_radius` must be > 0. Got -1.0"),
    "lr": (lambda: icgd.GD(lr=0.0), "`lr` must be a finite number > 0 or 'auto'. Got 0.0"),
    "lr word": (lambda: icgd.GD(lr="fast"), "`lr` must be .* Got 'fast'"),  # type: ignore[arg-type]
    "auto without radius": (
        lambda: icgd.compile(icgd.Ridge(2), icgd.GD()),
        "lr='auto' .* needs x_radius",
    ),
    "auto without w_radius": (
        lambda: icgd.compile(icgd.GLM(2, "poisson", x_radius=1.0), icgd.GD()),
        "needs w_radius",
    ),
    "SGD": (lambda: icgd.compile(icgd.Ridge(2), icgd.SGD(0.1)), "`optimizer` must be an icgd.GD"),
    "GD for a network": (
        lambda: icgd.compile(icgd.Network((2, 1)), icgd.GD(0.1), method="cot"),
        "`optimizer` must be an icgd.SGD",
    ),
    "network option": (
        lambda: icgd.compile(icgd.Network((2, 1)), icgd.SGD(0.1), native=True),
        "`native` must be left out for a network",
    ),
    "n_grid": (lambda: ridge(n_grid=20), "`n_grid` of the spectral head must be >= 25"),
    "several at once": (
        lambda: ridge(n_grid=1, radius=-2.0),
        "3 assumptions are violated.*n_grid.*radius.*target_radius",
    ),
    "target_radius": (
        lambda: glm("logistic", target_radius=-1.0),
        "`target_radius` must be a finite number > 0",
    ),
    "head_error": (
        lambda: icgd.compile(icgd.LinearModel(2, "huber"), icgd.GD(0.1), head_error=1e-6),
        "certified to .* the wanted error is 1e-06",
    ),
    "exp overflows": (
        lambda: glm("poisson", radius=1e4),
        "`radius` of the exponential head must be",
    ),
    "no steps": (lambda: ridge().run(X, Y), "`steps` must be an integer >= 1. Got None"),
    "steps 0": (lambda: ridge().run(X, Y, steps=0), "`steps` must be an integer >= 1. Got 0"),
    "epochs": (lambda: ridge().run(X, Y, epochs=2, steps=1), "`epochs` must be left out for GD"),
    "X shape": (lambda: ridge().run(X[:, :1], Y, steps=1), r"`X` must have shape \(n, 2\)"),
    "no rows": (lambda: ridge().run(X[:0], Y[:0], steps=1), "hold at least one example"),
    "y shape": (lambda: ridge().run(X, Y[:2], steps=1), "`y` must have one entry per row of X"),
    "y nan": (lambda: ridge().run(X, NAN, steps=1), "`y` must be finite. Got nan"),
    "init": (lambda: ridge().run(X, Y, steps=1, init=[0.0]), r"`init` must have shape \(2,\)"),
    "poisson y": (
        lambda: glm("poisson").run(X, -Y, steps=1),
        "`y` must be >= 0 for a Poisson model",
    ),
    "logistic y": (lambda: glm("logistic").run(X, 2 * Y, steps=1), "`y` must be 0 or 1 .* Got 2.0"),
    "margin y": (
        lambda: icgd.compile(icgd.LinearModel(2, "squared_hinge"), icgd.GD(0.1)).run(X, Y, steps=1),
        r"`y` must be -1 or \+1 for the squared_hinge loss. Got 0.0",
    ),
    "target too large": (
        lambda: glm("poisson", target_radius=4.0).run(X, 9 * Y, steps=1),
        "size 9, outside the range .* target_radius >= 9",
    ),
    "example too long": (
        lambda: icgd.compile(icgd.Ridge(2, x_radius=1.0), icgd.GD()).run(X, Y, steps=1),
        r"\|x\| = 2.23607, above the x_radius 1",
    ),
    "range": (
        lambda: ridge(radius=2.0).run(X, 9 * Y, steps=1),
        r"Head attention.slope met \|s\| = 9 .* outside its certified range .*radius >= 16",
    ),
    "dense too large": (
        lambda: icgd.compile(icgd.Ridge(200), icgd.GD(0.1)).run(
            torch.zeros(2000, 200), torch.zeros(2000), steps=1, executor="dense"
        ),
        "literal matrices .* or fewer examples",
    ),
    "predict shape": (lambda: ridge().run(X, Y, steps=1).predict(X[0]), "`X` must have shape"),
    "steps for a network": (
        lambda: icgd.compile(icgd.Network((2, 1)), icgd.SGD(0.1)).run(X, Y, steps=3),
        "`steps` must be left out for SGD",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_names_the_thing_and_the_remedy(name: str) -> None:
    call, message = CASES[name]
    with pytest.raises(icgd.IcgdError, match=message):
        call()


def test_a_function_that_was_not_saved_cannot_be_verified(tmp_path) -> None:
    program = icgd.compile(icgd.GLM(2, torch.nn.functional.softplus), icgd.GD(0.1))
    program.save_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path)
    loaded.run(X, Y, steps=1)
    with pytest.raises(icgd.AssumptionViolated, match="not stored with a program"):
        icgd.verify(loaded, X, Y, steps=1)


def test_collinear_features_without_penalty_are_said_to_have_no_minimiser() -> None:
    twice = torch.cat([X[:, :1], X[:, :1]], dim=1)
    check = icgd.verify(icgd.compile(icgd.Ridge(2), icgd.GD(0.1)), twice, Y, steps=5)
    assert check.passed
    assert any("features have rank" in note for note in check.notes)


def test_a_huber_loss_of_any_width_is_saved(tmp_path) -> None:
    program = icgd.compile(icgd.LinearModel(2, icgd.huber(1 / 3)), icgd.GD(0.1), n_grid=64)
    program.save_pretrained(tmp_path)
    again = icgd.Program.from_pretrained(tmp_path)
    assert torch.equal(program.run(X, Y, steps=3).weights, again.run(X, Y, steps=3).weights)
