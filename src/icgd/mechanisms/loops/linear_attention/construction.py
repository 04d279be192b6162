"""Linear attention with a chain of thought: what the rest of the package asks of it."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.loops.linear_attention"
LINEAR_ATTENTION = Construction(
    name="linear_attention_cot",
    problem="icgd.problems:RepresentationRegression",
    optimizer="icgd.problems:GD",
    options="icgd.mechanisms.loops.options:LinearAttentionOptions",
    choose=f"{_HERE}.compile:choose",
    build=f"{_HERE}.compile:build",
    when={"attention": "linear"},
    noun="a loop",
    title="one frozen layer of linear attention with a chain of thought fits",
    summary="linear attention that appends a weight vector a step",
    statement="[LSA] Theorem 3.2",
    starts=True,
    schema="icgd.mechanisms.config_schemas:LINEAR_ATTENTION",
    size="icgd.mechanisms.sizes:linear_attention_cot",
    exact="icgd.verification.loop_oracles:chain",
    walk="icgd.verification.walks.loop:chain",
)
