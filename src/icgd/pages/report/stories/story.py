"""What a report says about a result: title, rows, bounds, charts. One story per kind of result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icgd.base.construction import by_method
from icgd.pages.report.chart import Bars, Chart
from icgd.pages.report.stories import least_squares, linear_model, network


@dataclass(frozen=True)
class Story:
    """A result told for people; every page and table shows these parts in this order.

    bounds  rows with title, value, measured, why
    bars    operations, where they were counted
    """

    title: str
    lead: str
    against: str
    rows: list[tuple[str, str]]
    bounds: list[dict[str, str]]
    cost: list[tuple[str, str]]
    charts: list[Chart]
    bars: Bars | None
    footer: str

    def pictures(self) -> list[Chart | Bars]:
        """Everything that can be drawn."""
        return [*self.charts, *([self.bars] if self.bars is not None else [])]


def story(result: Mapping[str, Any]) -> Story:
    """The story of a result, by what was trained."""
    model = result.get("model", "network")
    cost = network.cost_rows(result)
    bars = network.cost_bars(result) if network.has_cost(result) else None
    if model == "linear":
        return Story(
            title="Frozen looped transformers solved this least-squares problem in their context",
            lead="One frozen layer was applied to the same tokens again and again, once made for gradient "
            "descent, once for Newton's method and once for preconditioned descent; beside them the exact "
            "algorithms solved the same problem.",
            against=f"that of exact {least_squares.NAMES[result['optimizer']]}",
            rows=least_squares.result_rows(result),
            bounds=[],
            cost=cost,
            charts=least_squares.charts(result),
            bars=bars,
            footer="Objectives are means of ½(w·x − y)² over all examples, in the units the model sees",
        )
    if model != "network":
        return Story(
            title=f"A frozen transformer fitted this {model} model in its context",
            lead="Every step the same layer read the last block of the prompt, all examples and the "
            "current weights, and wrote the block with the next weights; beside it exact gradient descent "
            "and scikit-learn solved the same problem.",
            against="that of exact gradient descent",
            rows=linear_model.result_rows(result),
            bounds=linear_model.bound_rows(result),
            cost=cost,
            charts=linear_model.charts(result),
            bars=bars,
            footer="Objectives are means over all examples with every constant, as in docs/statistics.md, "
            "in the units the model sees",
        )
    return Story(
        title="A frozen transformer trained this network in its context",
        lead=by_method(result.get("method")).lead,
        against="that of SGD",
        rows=network.result_rows(result),
        bounds=network.bound_rows(result),
        cost=cost,
        charts=network.charts(result),
        bars=bars,
        footer="Losses are means of ½|o − y|² over all examples, in the units the network sees",
    )
