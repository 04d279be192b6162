"""Figures of a run as PNG, one idea each: does it learn, is it exact, what does it cost.

Every function takes plain numbers and gives back the bytes of a PNG file, so that a caller decides
where they go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icgd.pages.report.chart import COLOURS as COLOURS
from icgd.pages.report.chart import Number
from icgd.pages.report.chart import positive as positive
from icgd.pages.report.drawing.draw import draw as draw
from icgd.pages.report.drawing.draw import picture
from icgd.pages.report.stories import network


def loss_figure(
    curve: Mapping[str, Sequence[Number]], rounds_are: str = network.ROUNDS["epochs"]
) -> bytes:
    """Loss of the network trained by the transformer and of the one trained by SGD, overlaid."""
    return picture(network.loss_chart(curve, rounds_are))


def error_figure(curve: Mapping[str, Sequence[Number]]) -> bytes:
    """Error of every single round on a logarithmic axis, with its bound."""
    return picture(network.error_chart(curve))


def cost_figure(result: Mapping[str, Any]) -> bytes:
    """FLOPs of the run with literal matrices and with the structured executor, as bars."""
    return picture(network.cost_bars(result))


def all_figures(result: Mapping[str, Any]) -> dict[str, bytes]:
    """The figures of a network's result by file name; curves that are missing are left out."""
    drawn = {f"{chart.id}.png": picture(chart) for chart in network.charts(result)}
    if network.has_cost(result):
        drawn["cost.png"] = cost_figure(result)
    return drawn
