"""(linear model, GD) -> Program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from icgd.errors import AssumptionViolated, InvalidParameter, raise_all
from icgd.mechanisms.assembly import DTYPES, make_config, own_config
from icgd.mechanisms.cot_linear.codec import StatisticsCodec
from icgd.mechanisms.cot_linear.layer import (
    StatisticsOptions,
    Tables,
    block_layout,
    make_tables,
    prediction_layer,
    target_table,
    update_layer,
)
from icgd.mechanisms.sizes import check_size
from icgd.problems import GD, LinearModel, LinearModelSpec
from icgd.problems.losses import Loss, built_in
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.heads.link_head import GridOptions, HeadTable, identity_table
from icgd.transformer.gadgets.heads.spectral_theory import grid_violations
from icgd.transformer.mask_rules import WindowMask
from icgd.transformer.program import Program

NAME = "softmax_cot_statistics"
LINEAR = {torch.float64: (1.4, 8.25, 1024.0), torch.float32: (1.4, 6.0, 128.0)}
"""rho, margin and radius of the identity head, as for networks."""


def defaults(spec: LinearModelSpec, dtype: torch.dtype) -> dict[str, Any]:
    """n_grid, rho, margin and radius that suit a loss.

    A fitted function needs its grid where the function happens, so its radius is small; a corner is
    read best by a narrow kernel and many tokens; a product grid has the square of n_grid tokens.
    """
    rho, margin, radius = LINEAR[dtype]
    if spec.loss.name == "squared":
        return {"n_grid": 32, "rho": rho, "margin": margin, "radius": radius}
    if spec.loss.kinked:
        return {"n_grid": 512, "rho": 0.6, "margin": 5.0, "radius": 16.0}
    if spec.loss.form == "joint":
        return {"n_grid": 96, "rho": 1.2, "margin": 6.5, "radius": 4.0}
    return {"n_grid": 128, "rho": rho, "margin": margin, "radius": 8.0}


def compile_statistics(
    problem: LinearModel, optimizer: GD, dtype: torch.dtype, options: Mapping[str, Any]
) -> Program:
    """Check every option, then build.

    Statement: [COT] Theorem 3.1

    Differs from the paper: one or two heads per example, each exact to rounding.
    """
    if not isinstance(optimizer, GD):
        raise InvalidParameter(
            "optimizer", type(optimizer).__name__, f"be an icgd.GD for {type(problem).__name__}"
        )
    spec = problem.spec
    chosen = {**defaults(spec, dtype), "target_radius": None, "native": True}
    chosen |= {name: value for name, value in options.items() if value is not None}
    wanted = chosen.pop("head_error", None)
    native = chosen["native"] and chosen["temperature"] == "spectral"
    if native and spec.loss.name == "poisson" and options.get("radius") is None:
        chosen["radius"] = 32.0
    if chosen["target_radius"] is None:
        chosen["target_radius"] = _target_radius(spec, chosen, dtype)
    grid = {name: chosen[name] for name in ("n_grid", "rho", "margin", "radius", "temperature")}
    found = grid_violations(**grid)
    if not (math.isfinite(chosen["target_radius"]) and chosen["target_radius"] > 0):
        found.append(
            f"`target_radius` must be a finite number > 0. Got {chosen['target_radius']!r}."
        )
    raise_all(found)
    lr = 1.0 / problem.smoothness() if optimizer.lr == "auto" else float(optimizer.lr)
    config = make_config(
        NAME, dtype, problem=_describe(spec), optimizer={"name": "GD", "lr": lr}, options=chosen
    )
    check_size(config)
    made = make_tables(spec, statistics_options(config))
    reached = made.slope.certificate.sup_error
    if wanted is not None and reached > wanted:
        raise AssumptionViolated(
            f"The {spec.loss.name} head with n_grid={chosen['n_grid']} on |s| <= {chosen['radius']:g} is "
            f"certified to {reached:.2g}; the wanted error is {wanted:.2g}. Raise n_grid, or compile with a "
            "smaller radius."
        )
    if not math.isfinite(reached) or reached > 1.0 + float(made.slope.values.abs().max()):
        raise AssumptionViolated(
            f"The slope of {spec.loss.name!r} cannot be read off this grid: its certificate is {reached:.2g}. "
            "Is it smooth on |s| <= radius? Otherwise say kinked=True, or compile with a smaller radius."
        )
    if built_in(spec.loss.name) is None:
        # A function of the user's own: its fitted tokens are kept, so that the program can be loaded.
        config["tables"] = {"slope": _stored(made.slope)}
    return assemble(config, spec, made)


def _target_radius(spec: LinearModelSpec, chosen: Mapping[str, Any], dtype: torch.dtype) -> float:
    """Labels are 0 or 1. Reading a large range costs nothing in spectral mode, digits in hard mode."""
    if spec.loss.name == "logistic":
        return 1.0
    if spec.loss.form == "link" and chosen["temperature"] == "spectral":
        return LINEAR[dtype][2]
    return float(chosen["radius"])


def _describe(spec: LinearModelSpec) -> dict[str, Any]:
    return {
        "n_features": spec.n_features,
        "loss": spec.loss.name,
        "form": spec.loss.form,
        "kinked": spec.loss.kinked,
        "lam": spec.lam,
        "penalty": spec.penalty,
        "intercept": spec.intercept,
        "x_radius": spec.x_radius,
        "w_radius": spec.w_radius,
        "y_radius": spec.y_radius,
    }


def statistics_options(config: Mapping[str, Any]) -> StatisticsOptions:
    """The options a config describes."""
    o = config["options"]
    grid = GridOptions(
        o["n_grid"], o["rho"], o["margin"], o["radius"], o["temperature"], DTYPES[config["dtype"]]
    )
    plain = grid
    if grid.temperature == "spectral" and config["problem"]["loss"] != "squared":
        # Passing a number on needs few tokens, whatever the loss takes.
        rho, margin, _ = LINEAR[grid.dtype]
        plain = replace(grid, n_grid=32, rho=rho, margin=margin)
    return StatisticsOptions(grid, plain, o["target_radius"], bool(o["native"]))


def _stored(table: HeadTable) -> dict[str, Any]:
    c = table.certificate
    return {
        "rates": [rate.tolist() for rate in table.rates],
        "offset": table.offset.tolist(),
        "values": table.values.tolist(),
        "radius": table.radius,
        "error": c.sup_error,
        "rigorous": c.rigorous,
    }


def assemble(config: Mapping[str, Any], spec: LinearModelSpec, tables: Tables) -> Program:
    """The program of checked parts."""
    options = statistics_options(config)
    layer = update_layer(spec, float(config["optimizer"]["lr"]), tables, options)
    readout = prediction_layer(spec, tables, options)
    fitted = {"tables": config["tables"]} if "tables" in config else {}
    program = Program(
        config={**own_config(config), **fitted},
        step=layer,
        readout=readout,
        mask=WindowMask(),
        layout=block_layout(spec),
        codec=StatisticsCodec(spec, options, tables, [layer.attention.like]),
        certificate=tables.slope.certificate,
    )
    return program.requires_grad_(False)


def build(config: Mapping[str, Any]) -> Program:
    """The program a config describes; used when loading from disk."""
    check_size(config)
    p = config["problem"]
    spec = LinearModelSpec(
        p["n_features"],
        _loss(p),
        p["lam"],
        p["penalty"],
        p["intercept"],
        p["x_radius"],
        p["w_radius"],
        p["y_radius"],
    )
    options = statistics_options(config)
    if "tables" not in config:
        return assemble(config, spec, make_tables(spec, options))
    stored = config["tables"]["slope"]
    as64 = {key: torch.tensor(stored[key], dtype=torch.float64) for key in ("offset", "values")}
    slope = HeadTable(
        tuple(torch.tensor(rate, dtype=torch.float64) for rate in stored["rates"]),
        as64["offset"],
        as64["values"],
        stored["radius"],
        Certificate(
            "stored_head",
            stored["radius"],
            stored["error"],
            math.inf,
            float(as64["values"].abs().max()),
            as64["offset"].numel(),
            stored["rigorous"],
        ),
    )
    if p["form"] == "link":
        tables = Tables(slope, target_table(options), slope)
    else:
        tables = Tables(slope, None, identity_table(options.plain))
    return assemble(config, spec, tables)


def _loss(problem: Mapping[str, Any]) -> Loss:
    name = str(problem["loss"])
    known = built_in(name)
    if known is not None:
        return known

    def forgotten(*_: Any) -> Any:
        raise AssumptionViolated(
            f"The {name!r} function is not stored with a program, only the tokens fitted to it: the program "
            "runs, but cannot be verified. Compile it again from the function."
        )

    return Loss(name, problem["form"], forgotten, forgotten, kinked=bool(problem["kinked"]))


Program.builders[NAME] = build
