"""What to write instead of an optimizer, or an option of one, that people know from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from icgd.errors import InvalidParameter

THERE_IS = (
    "There are icgd.SGD(lr) for networks, one row a round; icgd.GD(lr) for networks and linear models, all "
    "rows a step; icgd.Newton() and icgd.PreconditionedGD() for icgd.LinearRegression."
)
ABSENT = (
    *("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SparseAdam", "Adagrad", "Adadelta", "RMSprop"),
    *("Rprop", "ASGD", "LBFGS", "Adafactor", "Muon", "Lion", "Momentum", "Nesterov", "HeavyBall"),
)
"""Optimizers without a construction, by the names they have elsewhere."""
OPTIONS: Mapping[str, str] = {
    "momentum": "No construction has momentum; docs/extend.md adds Nesterov's for least squares.",
    "nesterov": "No construction of the package has momentum.",
    "dampening": "No construction of the package has momentum.",
    "batch_size": "icgd.SGD takes one row a round and icgd.GD all rows a step; nothing is in between.",
    "weight_decay": "Linear models have a penalty of their own, icgd.Ridge(n, lam=...); networks have none.",
    "betas": "That is Adam's, which no construction of the package has.",
    "learning_rate": "Write lr=...",
    "eta": "Write lr=...",
    "maximize": "Losses are minimised: change the sign of yours.",
}
DEFAULTS = {"momentum": 0, "weight_decay": 0, "nesterov": False, "dampening": 0, "maximize": False}
"""What torch.optim.SGD is unless told otherwise: plain descent."""


def no_optimizer(given: object) -> InvalidParameter:
    """The error for something that is no optimizer of the package."""
    if isinstance(given, torch.optim.Optimizer):
        return _torch_optimizer(given)
    remedy = THERE_IS
    if isinstance(given, type):
        own = f", icgd.{given.__name__}(lr=0.1)" if given.__module__.startswith("icgd.") else ""
        remedy = f"That is a class: pass one with its step size{own}. {THERE_IS}"
    shown = given.__name__ if isinstance(given, type) else type(given).__name__
    return InvalidParameter("optimizer", shown, "be an optimizer of icgd", remedy=remedy)


def _torch_optimizer(given: torch.optim.Optimizer) -> InvalidParameter:
    settings, name = given.defaults, type(given).__name__
    must = "be an optimizer of icgd: a description, which holds no parameters"
    if name != "SGD":
        return InvalidParameter("optimizer", f"torch.optim.{name}", must, remedy=THERE_IS)
    lr = float(settings["lr"])
    unsupported = [k for k, plain in DEFAULTS.items() if settings.get(k, plain) != plain]
    remedy = (
        f"Write icgd.SGD(lr={lr:g}) for one row a round, icgd.GD(lr={lr:g}) for all rows a step."
    )
    if unsupported:
        remedy += f" {OPTIONS[unsupported[0]]}"
    return InvalidParameter("optimizer", f"torch.optim.{name}", must, remedy=remedy)


def unknown_option(
    optimizer: str, known: tuple[str, ...], name: str, value: object
) -> InvalidParameter:
    """The error for an option that an optimizer of the package does not have."""
    remedy = OPTIONS.get(name, f"Its options are {', '.join(known)}.")
    return InvalidParameter(
        name, value, f"be left out: icgd.{optimizer} has no such option", remedy=remedy
    )


def refuse_unknown(call: str, unknown: Mapping[str, object]) -> None:
    """Complain about a keyword that a function of the package does not have."""
    for name, value in unknown.items():
        raise InvalidParameter(
            name, value, f"be left out: {call} has no such option", remedy=OPTIONS.get(name, "")
        )
