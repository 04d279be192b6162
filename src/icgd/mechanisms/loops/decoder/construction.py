"""A looped decoder that trains on every prefix: what the rest of the package asks of it."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.loops.decoder"
LOOPED_DECODER = Construction(
    name="looped_decoder",
    problem="icgd.problems:RepresentationRegression",
    optimizer="icgd.problems:GD",
    options="icgd.mechanisms.loops.options:DecoderOptions",
    choose=f"{_HERE}.compile:choose",
    build=f"{_HERE}.compile:build",
    when={"causal": True},
    noun="a loop",
    summary="a looped decoder that trains on every prefix",
    statement="[ALGO] Theorem 4.2",
    schema="icgd.mechanisms.config_schemas:LOOPED_DECODER",
    size="icgd.mechanisms.sizes:looped_decoder",
    exact="icgd.verification.loop_oracles:prefixes",
    walk="icgd.verification.walks.loop:prefixes",
)
