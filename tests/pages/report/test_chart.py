"""Axes that count something begin at 0, on the page and in figures for a paper."""

import pytest
from matplotlib.figure import Figure

from icgd.pages.report.chart import Chart, Series, plotly
from icgd.pages.report.drawing import draw

ROUNDS = (3.0, 50.0, 120.0)


def chart(y, x=ROUNDS, **more):
    return Chart("c", "title", "round", "loss", (Series("a", x, y, "#000000"),), **more)


@pytest.fixture
def limits(monkeypatch):
    """The limits of the axes of a picture."""
    seen = []

    def saved(figure: Figure, format: str) -> bytes:
        figure.canvas.draw()
        seen.append((figure.axes[0].get_xlim(), figure.axes[0].get_ylim()))
        return b""

    monkeypatch.setattr(draw, "saved", saved)

    def of(made):
        draw.picture(made)
        return seen[-1]

    return of


def test_rounds_and_losses_begin_at_zero(limits):
    (left, right), (bottom, top) = limits(chart((5.0, 4.0, 4.5)))
    assert left == bottom == 0
    assert right >= 120
    assert top >= 5
    told = plotly(chart((5.0, 4.0, 4.5)))
    assert told["zero_x"]
    assert told["zero_y"]


def test_what_has_both_signs_does_not(limits):
    _, (bottom, _) = limits(chart((5.0, -4.0, 4.5)))
    assert bottom < -4
    assert not plotly(chart((5.0, -4.0, 4.5)))["zero_y"]


def test_logarithmic_axes_have_no_zero(limits):
    made = chart((5.0, 4.0, 4.5), log_x=True, log_y=True)
    (left, _), (bottom, _) = limits(made)
    assert left > 0
    assert bottom > 0
    assert not plotly(made)["zero_x"]
    assert not plotly(made)["zero_y"]
