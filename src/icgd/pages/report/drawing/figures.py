"""Figures of a run as PNG, one idea each: does it learn, is it exact, what does it cost.

Every function takes plain numbers and gives back the bytes of a PNG file, so that a caller decides
where they go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from icgd.pages.report.chart import COLOURS as COLOURS
from icgd.pages.report.chart import Number
from icgd.pages.report.chart import positive as positive
from icgd.pages.report.drawing.draw import draw as draw
from icgd.pages.report.drawing.draw import picture
from icgd.pages.report.stories import network


def error_figure(curve: Mapping[str, Sequence[Number]]) -> bytes:
    """Error of every single round on a logarithmic axis, with its bound."""
    return picture(network.error_chart(curve))
