"""What a report says about a result: title, rows, bounds, curves. One story per kind of result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Story:
    """A result told for people; every page and table shows these parts in this order.

    bounds  rows with title, value, measured, why
    plots   Plotly traces with id, title and axes
    """

    title: str
    lead: str
    against: str
    rows: list[tuple[str, str]]
    bounds: list[dict[str, str]]
    cost: list[tuple[str, str]]
    plots: list[dict[str, Any]]
    figures: Mapping[str, bytes]
    footer: str
