"""The report: figures that can be read, and a page that needs nothing but itself."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import pytest

from icgd.pages.report import render_report, write_report
from icgd.pages.report.chart import plotly
from icgd.pages.report.drawing.draw import picture
from icgd.pages.report.drawing.figures import (
    error_figure,
    positive,
)
from icgd.pages.report.stories.network import BOUNDS, ROUNDS, charts, cost_bars, loss_chart
from icgd.pages.report.stories.numbers import number

RESULT = {
    "passed": True,
    "max_error": 2.9e-15,
    "max_round_error": 2.4e-15,
    "round_bound": 1.2e-12,
    "global_bound": None,
    "paper_bound": 1.5e-7,
    "rounds_over_bound": 0,
    "rounds": 4,
    "blocks": 16,
    "live_blocks_max": 6,
    "dense_flops": 10**12,
    "structured_flops": 10**7,
    "loss_before": 0.63,
    "loss_after": 0.22,
    "loss_after_sgd": 0.22,
    "r2_transformer": 0.5567,
    "r2_sgd": 0.5567,
    "range_use": 0.0078,
    "near_kink": {"count": 1, "first": [3, 2, 5]},
    "seconds": 4.2,
    "notes": ["The global bound is <vacuous> from round 2 on."],
    "config": {"data": "</script><b>x.csv", "problem": {"widths": [3, 4, 1]}, "standardize": True},
    "versions": {"icgd": "0.1.0", "torch": "2"},
    "curves": {
        "loss": {"round": [0, 2, 4], "transformer": [0.63, 0.4, 0.22], "sgd": [0.63, 0.4, 0.22]},
        "error": {
            "round": [1, 2, 3, 4],
            "error": [0.0, 1e-16, 2e-16, 2.9e-15],
            "round_error": [0.0, 1e-16, 2e-16, 2.4e-15],
            "round_bound": [1e-12, 1e-12, None, 1.2e-12],
            "global_bound": [1e-12, 1e-3, None, None],
            "paper_bound": [1e-8, 2e-8, 3e-8, 4e-8],
        },
    },
}


class Page(HTMLParser):
    """Everything a browser would fetch, every tag, and the text between tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        wanted = ("src", "href", "srcset", "data", "action", "poster")
        self.fetched += [value for name, value in attributes if name in wanted and value]

    def handle_data(self, data):
        (self.scripts if self.tags and self.tags[-1] == "script" else self.text).append(data)


@pytest.fixture(scope="module")
def text() -> str:
    return render_report(RESULT)


@pytest.fixture(scope="module")
def page(text) -> Page:
    return Page(text)


def test_page_fetches_nothing(page, text):
    assert page.fetched
    assert all(address.startswith("data:") for address in page.fetched)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "<script src" not in text


def test_plotly_is_inlined_once(text, page):
    assert text.count("* plotly.js v") == 1
    assert page.tags.count("script") == 3  # data, library, ours


def test_user_text_cannot_break_out(page, text):
    shown = " ".join(page.text)
    assert "</script><b>x.csv" in shown
    assert "<vacuous>" in shown
    assert "<b>x.csv" not in text
    assert "<vacuous>" not in text


def test_every_table_is_there(page):
    shown = " ".join(" ".join(page.text).split())
    for _, sentence in BOUNDS.values():
        assert sentence in shown
    for words in (
        "Result",
        "Cost",
        "Configuration",
        "Versions",
        "0.5567",
        "2.9e-15",
        "1.2e-12",
        "not finite",
        "round 3, layer 2, unit 5",
        "problem.widths",
        "3, 4, 1",
        "torch",
    ):
        assert words in shown


def test_light_and_dark(text):
    assert "prefers-color-scheme: dark" in text
    assert 'name="color-scheme" content="light dark"' in text


@pytest.mark.usefixtures("unpainted")
def test_failed_runs_say_so():
    failed = Page(render_report({**RESULT, "passed": False}))
    assert "Not passed." in "".join(failed.text)


@pytest.mark.usefixtures("unpainted")
def test_the_page_claims_no_more_than_was_counted():
    """A run may pass with rounds above their bound (float32): the page must not say otherwise."""
    shown = " ".join("".join(Page(render_report({**RESULT, "rounds_over_bound": 3})).text).split())
    assert "Rounds above their bound: 3 of 4." in shown
    assert "within its bound" not in shown
    assert "under its bound" not in shown


def test_plots_are_valid_json_without_nan():
    drawn = [plotly(chart) for chart in charts(RESULT)]
    assert [plot["id"] for plot in drawn] == ["loss", "error", "run"]
    json.dumps(drawn, allow_nan=False)
    measured = next(t for t in drawn[1]["traces"] if t["name"] == "measured: one round")
    assert measured["y"][0] is None  # exactly zero has no place on a logarithmic axis


def test_written_files(tmp_path):
    written = write_report(RESULT, tmp_path)
    assert {p.name for p in written} == {"loss.png", "error.png", "cost.png", "report.html"}
    for path in tmp_path.glob("*.png"):
        width, height = png_size(path.read_bytes())
        assert width >= 900
        assert height >= 150


def png_size(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def test_equal_numbers_give_equal_figures():
    again = json.loads(json.dumps(RESULT))
    assert [picture(c) for c in charts(RESULT)] == [picture(c) for c in charts(again)]


def test_a_result_without_curves_still_has_a_page():
    bare = {key: value for key, value in RESULT.items() if key not in ("curves", "notes")}
    assert not charts(bare)
    text = render_report(bare)
    assert "Three bounds" in text
    assert "holds no curves" in text
    assert "<script" not in text


@pytest.mark.parametrize("values", [[0.0, 0.0], [None, None], [math.inf, 1.0]])
def test_degenerate_curves_are_drawn_without_a_warning(values):
    curve = {"round": [1, 2], "round_error": values, "round_bound": values, "error": values}
    assert error_figure(curve)
    losses = {"round": [0, 1], "transformer": [1.0, None], "sgd": [1.0, 0.0]}
    assert picture(loss_chart(losses, ROUNDS["epochs"]))
    assert picture(cost_bars({"dense_flops": 5, "structured_flops": 5, "blocks": 1, "rounds": 1}))


def test_positive_leaves_gaps():
    assert [math.isnan(v) for v in positive([1.0, 0.0, -1.0, None, math.inf])] == [
        False,
        True,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (12345, "12,345"),
        (1e-15, "1e-15"),
        (math.inf, "not finite"),
        ("x", "x"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_explanations_are_one_sentence_each():
    for _, sentence in BOUNDS.values():
        assert re.fullmatch(r"[^.]*\.", sentence)
