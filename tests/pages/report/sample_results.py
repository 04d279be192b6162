"""Small results of every kind, with the keys `icgd run` writes."""

from __future__ import annotations

import copy

VERSIONS = {"icgd": "0.1.0", "python": "3.12", "torch": "2"}
FEATURES = ["a", "b"]
SCALES = {
    "features": {"a": {"centre": 0.0, "scale": 1.5}, "b": {"centre": 2.0, "scale": 0.5}},
    "targets": {"y": {"centre": 1.0, "scale": 3.0}},
}
_COST = {"blocks": 16, "live_blocks_max": 6, "dense_flops": 10**12, "structured_flops": 10**7}
_CONSTRUCTION = {
    "cot": "softmax_cot_network",
    "stack": "relu_stack",
    "forward_mode": "forward_mode",
}


def network(method: str = "cot", lr: float = 0.01, widths: tuple[int, ...] = (2, 4, 1)) -> dict:
    length = {"epochs": 2} if method == "cot" else {"steps": 4}
    optimizer = (
        {"name": "SGD", "lr": lr} if method == "cot" else {"name": "GD", "lr": lr, "box": None}
    )
    options = {"n_grid": 32, "rho": 1.4, "radius": 1024.0, "temperature": "spectral"}
    if method != "cot":
        options = {"n_relu": 200, "radius": 8.0, "signal_radius": 16.0}
    return copy.deepcopy(
        {
            "format": "icgd-result/1",
            "method": method,
            "passed": True,
            "max_error": 2.9e-15,
            "max_round_error": 2.4e-15,
            "round_bound": 1.2e-12,
            "global_bound": None,
            "paper_bound": 1.5e-7,
            "rounds_over_bound": 0,
            "rounds": 4,
            **_COST,
            "loss_before": 0.6317,
            "loss_after": 0.2213 + lr,
            "loss_after_sgd": 0.2213 + lr,
            "r2_transformer": 0.5567,
            "r2_sgd": 0.5567,
            "range_use": 0.0078,
            "radius": 1024.0,
            "head_error": 1e-11,
            "near_kink": {"count": 1, "first": [3, 2, 5]},
            "notes": ["A note."],
            "seconds": 4.2,
            "config": {
                "data": "data/table.csv",
                "rows": 2,
                "features": FEATURES,
                "targets": ["y"],
                **length,
                "seed": 0,
                "standardize": True,
                "executor": "structured",
                "construction": _CONSTRUCTION[method],
                "problem": {
                    "widths": list(widths),
                    "activation": "relu",
                    "output": "linear",
                    "bias": True,
                },
                "optimizer": optimizer,
                "options": options,
                "dtype": "float64",
            },
            "versions": VERSIONS,
            "standardization": SCALES,
            "curves": {
                "loss": {
                    "round": [0, 2, 4],
                    "transformer": [0.6317, 0.4, 0.2213 + lr],
                    "sgd": [0.6317, 0.4, 0.2213 + lr],
                },
                "error": {
                    "round": [1, 2, 3, 4],
                    "error": [0.0, 1e-16, 2e-16, 2.9e-15],
                    "round_error": [0.0, 1e-16, 2e-16, 2.4e-15],
                    "round_bound": [1e-12, 1e-12, None, 1.2e-12],
                    "global_bound": [1e-12, 1e-3, None, None],
                    "paper_bound": [1e-8, 2e-8, 3e-8, 4e-8],
                },
            },
        }
    )


def statistics(model: str = "lasso", lam: float = 0.1) -> dict:
    return copy.deepcopy(
        {
            "format": "icgd-result/1",
            "model": model,
            "passed": True,
            "max_error": 5e-16,
            "max_round_error": 4e-16,
            "round_bound": 3e-13,
            "global_bound": 2.8e-10,
            "paper_bound": 1e-3,
            "distance": 2e-9,
            "rounds_over_bound": 0,
            "rounds": 3,
            **_COST,
            "objective_before": 0.5,
            "objective_after": 0.337,
            "objective_library": 0.337,
            "max_difference_library": 2e-15,
            "r2_transformer": 0.472,
            "range_use": 0.002,
            "radius": 8.0,
            "head_error": 1e-12,
            "constants": {"kappa": 470.1, "beta": 4.0},
            "coefficients": {
                "a": {"transformer": 0.31, "scikit-learn": 0.31},
                "b": {"transformer": -0.1, "scikit-learn": None},
            },
            "notes": [],
            "seconds": 1.5,
            "config": {
                "data": "example:diabetes",
                "rows": 2,
                "features": FEATURES,
                "target": "y",
                "model": model,
                "steps": 3,
                "standardize": True,
                "executor": "structured",
                "construction": "softmax_cot_statistics",
                "problem": {"loss": "squared", "lam": lam, "penalty": "l1", "intercept": False},
                "optimizer": {"name": "GD", "lr": 0.25},
                "options": {"n_grid": 32, "rho": 1.4, "radius": 8.0, "temperature": "spectral"},
                "dtype": "float64",
            },
            "versions": VERSIONS,
            "standardization": SCALES,
            "curves": {
                "fit": {
                    "round": [1.0, 2.0, 3.0],
                    "error": [1e-16, 3e-16, 5e-16],
                    "step_error": [1e-16] * 3,
                    "step_bound": [3e-13] * 3,
                    "global_bound": [3e-13, 6e-13, 2.8e-10],
                    "distance": [0.1, 1e-4, 2e-9],
                    "theorem": [1.0, 0.1, 1e-3],
                    "objective": [0.4, 0.35, 0.337],
                },
                "path": {
                    "round": [1.0, 2.0, 3.0],
                    "coefficients": {"a": [0.1, 0.2, 0.31], "b": [-0.3, -0.2, -0.1]},
                },
            },
        }
    )


def linear(optimizer: str = "newton") -> dict:
    construction = {
        "gd": "looped_regression",
        "newton": "looped_newton",
        "preconditioned": "looped_preconditioned",
    }[optimizer]
    lengths = {"gd": 5, "newton": 4, "preconditioned": 3}
    return copy.deepcopy(
        {
            "format": "icgd-result/1",
            "model": "linear",
            "optimizer": optimizer,
            "passed": True,
            "max_error": 3.5e-13,
            "rounds": lengths[optimizer],
            "distance": 3.5e-13,
            "objective_before": 0.5,
            "objective_after": 0.241,
            "objective_library": 0.241,
            "r2_transformer": 0.518,
            "coefficients": {"a": {"transformer": 1.0, "scikit-learn": 1.0}},
            "notes": [],
            "seconds": 2.5,
            "config": {
                "data": "example:diabetes",
                "rows": 2,
                "features": FEATURES,
                "target": "y",
                "model": "linear",
                "standardize": True,
                "construction": construction,
                "problem": {"n_features": 2, "n_examples": 2},
                "optimizer": {"name": "GD", "lr": 0.1} if optimizer == "gd" else {"name": "Newton"},
                "options": {"mode": "spectral"},
                "steps": lengths[optimizer],
                "dtype": "float64",
            },
            "versions": VERSIONS,
            "standardization": SCALES,
            "curves": {
                "distance": {
                    f"{name}_{kind}": [10.0**-k for k in range(n)]
                    for name, n in lengths.items()
                    for kind in ("exact", "transformer")
                },
                "error": {name: [1e-16] * n for name, n in lengths.items()},
            },
        }
    )


EVERY_KIND = {
    **{method: network(method) for method in ("cot", "stack", "forward_mode")},
    **{model: statistics(model) for model in ("ridge", "lasso", "logistic", "poisson")},
    **{name: linear(name) for name in ("gd", "newton", "preconditioned")},
}
