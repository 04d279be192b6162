"""Loops that continue series and chains: what the rest of the package asks of it."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.loops.series"
LOOPED_AUTOREGRESSION = Construction(
    name="looped_autoregression",
    problem="icgd.problems:Autoregression",
    optimizer="icgd.problems:GD",
    options="icgd.mechanisms.loops.options:ProductOptions",
    choose=f"{_HERE}.compile_series:choose",
    build=f"{_HERE}.compile_series:build",
    noun="a loop",
    summary="a looped transformer",
    statement="[ALGO] Theorem 3.2",
    call=("run = program.run(series, None, {rounds})", "run.prediction"),
    schema="icgd.mechanisms.config_schemas:LOOPED_AUTOREGRESSION",
    size="icgd.mechanisms.sizes:looped_autoregression",
    exact="icgd.verification.loop_oracles:descent",
    walk="icgd.verification.walks.loop:descent",
)
LOOPED_CHAIN = Construction(
    name="looped_chain",
    problem="icgd.problems:MLPChain",
    optimizer="icgd.problems:GD",
    options="icgd.mechanisms.loops.options:ProductOptions",
    choose=f"{_HERE}.compile_chain:choose",
    build=f"{_HERE}.compile_chain:build",
    noun="a loop",
    summary="a looped transformer",
    statement="[ALGO] Theorem 3.3",
    call=("run = program.run(chains, None, {rounds}, query=start)", "run.prediction"),
    schema="icgd.mechanisms.config_schemas:LOOPED_CHAIN",
    size="icgd.mechanisms.sizes:looped_chain",
)
