"""What the chain of thought costs, and what its paper does not count."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from icgd.costs.account import NUMBER, RADIUS, Wanted, flops_of, unreached
from icgd.costs.cot import CotSizes, PromptCosts, cot_calls, cot_structured_flops, scan_flops
from icgd.costs.fits import Reached
from icgd.costs.formulas import MODELS
from icgd.costs.method_cost import LeftOut, MethodCost
from icgd.errors import AssumptionViolated
from icgd.problems import NetworkSpec
from icgd.transformer.gadgets.heads.spectral_theory import (
    GridGeometry,
    grid_for_error,
    head_error,
    make_geometry,
    paper_tokens_for,
)


@lru_cache(maxsize=64)
def _grid(error: float) -> GridGeometry:
    return grid_for_error(error, RADIUS)


def cot_cost(spec: NetworkSpec, about: dict[str, Any], wanted: Wanted) -> MethodCost:
    """One layer and a chain of thought."""
    error, n, N = about["error"], about["n_examples"], spec.n_layers
    notes = []
    if spec.activation != "relu" or spec.loss.name != "squared":
        notes.append(
            "method='cot' trains ReLU networks with the squared loss; this is the ReLU network of these widths."
        )
    geometry = make_geometry(32, 1.4, 8.25, RADIUS, "spectral")
    if error is not None:
        try:
            geometry = _grid(error)
        except AssumptionViolated as refusal:
            reached = Reached(None, head_error(geometry, RADIUS, 2.0**-53), str(refusal))
            return unreached(about, reached, 1, CotSizes(spec.d_model).d_token, spec.d_model)
    sizes = CotSizes(spec.d_model, spec.bias, spec.output == "linear", geometry.n_grid)
    calls = cot_calls(N)

    def per_pass(model: str) -> int:
        if model == "structured":
            return n * cot_structured_flops(spec.widths, geometry.n_grid)
        return n * calls * sizes.call_flops(model)

    entries = {model: sizes.entries(model) for model in MODELS}
    return MethodCost(
        **about,
        certified=head_error(geometry, RADIUS, 2.0**-53),
        sizes={"n_grid": geometry.n_grid},
        layers=1,
        heads=(0, sizes.n_heads, 0),
        hidden=(sizes.routing_units, 0, sizes.activation_units),
        d_token=sizes.d_token,
        n_tokens=sizes.d,
        parameters=entries["dense"],
        nonzeros=entries["nonzeros"],
        memory_bytes={m: NUMBER * k for m, k in entries.items()},
        state_bytes=NUMBER * (calls + 2) * sizes.d * sizes.d_token,
        **flops_of(per_pass, about),
        updates_per_pass=n,
        serial_per_pass=3 * calls * n,
        left_out=_left_out(spec, about, sizes),
        notes=tuple(notes),
    )


def _left_out(spec: NetworkSpec, about: dict[str, Any], sizes: CotSizes) -> tuple[LeftOut, ...]:
    """What the limitations of [COT] name: the mask, the prompt, the serial constant; and its own heads."""
    n, steps, N = about["n_examples"], about["steps"], spec.n_layers
    rounds = n * steps
    p = PromptCosts.after(rounds=rounds, n_layers=N)
    block = NUMBER * sizes.d * sizes.d_token

    def spread(name: str, unit: str, total: float, note: str) -> LeftOut:
        return LeftOut(name, unit, total / rounds, total / steps, total, note)

    rows = [
        spread(
            "choosing the mask",
            "addresses",
            p.addresses,
            "two blocks a call, by arithmetic on (round, layer) outside the transformer",
        ),
        spread(
            "scanning the prompt",
            "FLOPs",
            scan_flops(sizes, p.looks),
            "if the mask must be found: every column asks the flags of every column; grows with the run",
        ),
        spread(
            "serial calls",
            "calls",
            p.serial,
            "2N an example, one after the other; a stack takes all examples at once",
        ),
        spread(
            "prompt kept whole",
            "bytes",
            float(block * p.blocks),
            "2 blocks an example, N to begin with, 2N written per round; live blocks suffice",
        ),
    ]
    if about["error"] is not None:
        tokens = paper_tokens_for(about["error"], RADIUS)
        literal = replace(sizes, n_grid=int(tokens)).call_flops() * cot_calls(N) * rounds
        rows.append(
            spread(
                "nearest-level heads",
                "FLOPs",
                literal,
                f"dense, with the {tokens:.1e} grid tokens a nearest level needs for this error",
            )
        )
    return tuple(rows)
