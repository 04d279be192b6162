"""Several runs on one page: numbers as in the results, curves where they belong, honest words."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.pages.report.sample_results import EVERY_KIND, linear, network, statistics

from icgd.errors import InvalidFile, InvalidParameter
from icgd.pages.report import PaperFigures, render_report, write_comparison
from icgd.pages.report.compare import (
    comparability,
    cost_chart,
    render_comparison,
    settings,
    summary,
)
from icgd.pages.report.drawing.panels import comparison_charts
from icgd.pages.report.results import Run, read_runs
from icgd.pages.report.statements import statement_rows
from icgd.pages.report.write import paper_figures, rendered_page

HOSTILE = "</script><img src=x onerror=alert(1)>$x^{$ & \u202e\ud800'\""


def runs(*results: dict) -> list[Run]:
    return read_runs(results)


class Numbers(HTMLParser):
    """Every `<data value=...>` of a page, by its row, and all tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.values: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text: list[str] = []
        # The library is five megabytes of no interest here.
        self.feed(re.sub(r"<script>.*?</script>", "<script></script>", text, flags=re.DOTALL))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "data":
            self.values.append(dict(attributes)["value"])

    def handle_data(self, data):
        self.text.append(data)


def every_number(value) -> set[float]:
    if isinstance(value, dict):
        return set().union(*map(every_number, value.values()), set())
    if isinstance(value, list):
        return set().union(*map(every_number, value), set())
    return {float(value)} if isinstance(value, (int, float)) else set()


# -- one run --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_has_its_numbers_charts_statements_and_a_command(kind):
    result = EVERY_KIND[kind]
    text = render_report(result)
    page = Numbers(text)
    assert len(page.values) >= 8
    assert {float(v) for v in page.values} <= every_number(result)
    for key in ("max_error", "rounds", "seconds"):
        assert str(result[key]) in page.values
    assert len(embedded(text)["plots"]) >= 2
    for words in ("Configuration", "Versions", "Cost", "Statements behind this run", "Do it again"):
        assert words in text
    for row in statement_rows(EVERY_KIND[kind]):
        assert row.statement in text


def embedded(text: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))


@pytest.mark.usefixtures("unpainted")
def test_the_policy_lets_only_the_two_scripts_of_the_page_run():
    text = render_report(network())
    policy = (
        re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        .group(1)
        .replace("&#39;", "'")
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "'unsafe-inline'" not in policy.split("style-src")[0]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert re.findall(r"'sha256-([^']*)'", policy) == hashes


# -- several runs ---------------------------------------------------------------------------------


def test_runs_of_the_same_problem_share_all_axes():
    same = runs(network(), network(lr=0.02), network("stack", lr=0.1))
    charts = comparison_charts(same)
    assert [chart.id for chart in charts] == ["loss", "error", "run"]
    for chart in charts:
        assert [s.name for s in chart.series if s.named] == [run.name for run in same]
    loss = charts[0].series
    assert list(loss[1].y) == network(lr=0.02)["curves"]["loss"]["transformer"]
    assert list(loss[0].x) == [0, 1, 2]  # two rows: a round is half a pass
    assert list(loss[2].x) == [0, 2, 4]  # a step of a stack is a pass
    assert len({s.colour for s in loss}) == 3


def test_other_models_and_other_data_are_not_drawn_together():
    other = network(lr=0.02)
    other["standardization"]["features"]["a"]["scale"] = 7.0
    mixed = runs(network(), other, statistics(), linear())
    for chart in comparison_charts(mixed):
        assert len({s.group for s in chart.series}) == 1
    said = " ".join(comparability(mixed))
    assert "Different data: run 1, run 3, run 4 on table.csv" in said
    assert "Different models on the same data" in said
    assert "not drawn together" in said


def test_networks_of_other_widths_share_losses_but_no_errors():
    two = runs(network(), network(widths=(2, 8, 1)))
    sizes = {chart.id: len({s.group for s in chart.series}) for chart in comparison_charts(two)}
    assert sizes == {
        "loss": 2,
        "error-network-1": 1,
        "error-network-2": 1,
        "run-network-1": 1,
        "run-network-2": 1,
    }
    assert "Different networks" in comparability(two)[0]


def test_another_penalty_is_another_objective():
    two = runs(statistics(lam=0.1), statistics(lam=0.2))
    assert all(len({s.group for s in c.series}) == 1 for c in comparison_charts(two))


def test_all_three_loops_are_one_problem():
    three = runs(*(linear(name) for name in ("gd", "newton", "preconditioned")))
    assert [c.id for c in comparison_charts(three)] == ["distance", "error"]
    assert comparability(three) == [
        "All runs have the same data and the same model: every curve is drawn together."
    ]


def test_every_run_has_its_curves_whatever_it_is_compared_with():
    kinds = list(EVERY_KIND.values())
    for chosen in (kinds[:8], kinds[2:]):
        found = runs(*chosen)
        drawn = {s.group for chart in comparison_charts(found) for s in chart.series}
        assert drawn == {run.name for run in found}


def test_settings_that_differ_are_marked_and_first():
    rows = settings(runs(network(), network(lr=0.02)))
    assert [row.name for row in rows if row.differs] == ["optimizer.lr"]
    assert rows[0].cells == ["0.01", "0.02"]
    top = {row.name: row for row in summary(runs(network(), network(lr=0.02)))}
    assert top["optimizer.lr"].differs
    assert not top["Model"].differs


@pytest.mark.usefixtures("unpainted")
def test_numbers_of_a_comparison_are_numbers_of_the_results():
    one, two = network(), {**statistics(), "seconds": 123.25}
    page = Numbers(render_comparison(runs(one, two)))
    assert {float(v) for v in page.values} <= every_number([one, two])
    assert "123.25" in page.values
    bars = cost_chart(runs(one, two))
    assert [list(v) for v in bars.kinds.values()] == [[10**12] * 2, [10**7] * 2]


@pytest.mark.usefixtures("unpainted")
def test_runs_that_did_not_pass_are_said_to():
    text = render_comparison(runs(network(), {**network(), "passed": False}))
    assert "1 of 2 runs did not pass" in text
    assert "NOT PASSED" in text


@pytest.mark.usefixtures("unpainted")
def test_a_run_without_curves_is_named():
    bare = network()
    del bare["curves"]
    assert "run 2 has no curves to draw" in render_comparison(runs(network(), bare))


# -- hostile, damaged, degenerate -----------------------------------------------------------------


def test_hostile_names_are_text_everywhere():
    result = statistics()
    result["curves"]["path"]["coefficients"][HOSTILE] = [1.0, 2.0, 3.0]
    result["coefficients"][HOSTILE] = {"scikit-learn": 1.0}
    result["notes"] = [HOSTILE]
    result["config"].update(data=HOSTILE, features=[HOSTILE], target=HOSTILE)
    result["versions"] = {HOSTILE: HOSTILE}
    for found in (runs(result), runs(result, network())):
        text = rendered_page(found, title=HOSTILE)
        page = Numbers(text)
        assert not any(name.startswith("on") for _, given in page.tags for name in given)
        images = [given["src"] for tag, given in page.tags if tag == "img"]
        assert all(source.startswith("data:image/png;base64,") for source in images)
        assert text.count("</script>") == 3
        assert "\u202e" not in text
    assert paper_figures(runs(result), ("png", "pdf"))


@pytest.mark.parametrize("values", [None, 0.0])
def test_curves_without_a_number_are_left_out_and_said(values):
    result = network()
    result["curves"]["error"]["round_bound"] = [values] * 4
    text = render_report(result)
    assert "Without a number that could be drawn here: bound of one round." in text
    assert "bound of one round" not in json.dumps(embedded(text))


DAMAGE = {
    "another format": (lambda r: r.update(format="icgd-result/2"), "icgd-result/2"),
    "no format": (lambda r: r.pop("format"), "format None"),
    "another model": (lambda r: r.update(model="tree"), "'tree'"),
    "a missing number": (lambda r: r.pop("max_error"), "max_error"),
    "text for a number": (lambda r: r.update(max_error="small"), "'small'"),
    "a boolean for a number": (lambda r: r.update(round_bound=True), "round_bound"),
    "no verdict": (lambda r: r.pop("passed"), "passed"),
    "half a count": (lambda r: r.update(rounds=1.5), "rounds"),
    "config": (lambda r: r.update(config=[1]), "config"),
    "notes": (lambda r: r.update(notes="x"), "notes"),
    "curve without a list": (lambda r: r["curves"]["loss"].pop("sgd"), "'sgd'"),
    "curve of text": (lambda r: r["curves"]["loss"].update(sgd=["a", 1, 2]), "loss.sgd"),
    "unequal curve": (lambda r: r["curves"]["loss"].update(sgd=[1.0]), "equally long"),
    "rounds that are null": (
        lambda r: r["curves"]["loss"].update(round=[0, None, 4]),
        "loss.round",
    ),
    "kink": (lambda r: r.update(near_kink={"count": 1, "first": [1]}), "near_kink"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_results_are_refused_in_one_sentence(what):
    result = network()
    DAMAGE[what][0](result)
    with pytest.raises(InvalidFile) as error:
        read_runs([result])
    assert DAMAGE[what][1] in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_runs_and_none():
    for number in (0, 9):
        with pytest.raises(InvalidParameter, match="1 to 8 runs"):
            read_runs([network()] * number)


# -- files ----------------------------------------------------------------------------------------


def png_size(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


@pytest.mark.parametrize("width", [3.4, 7.0])
def test_figures_for_a_paper_have_the_width_asked_for(width):
    found = runs(network(), network(lr=0.02))
    figures = paper_figures(found, ("png", "pdf", "svg"), width)
    assert {Path(name).stem for name in figures} == {"loss", "error", "run", "cost"}
    for name, data in figures.items():
        if name.endswith(".png"):
            assert png_size(data)[0] == round(300 * width)
        elif name.endswith(".pdf"):
            assert data.startswith(b"%PDF-")
            assert data.rstrip().endswith(b"%%EOF")
            box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", data)
            assert float(box.group(1)) == pytest.approx(72 * width)
            assert b"/FontFile2" in data  # TrueType, embedded
            assert b"/Type3" not in data
            assert b"/CreationDate" not in data
        else:
            assert b"<svg" in data


def test_equal_results_give_equal_bytes():
    chosen = [network(), linear()]
    first, second = runs(*chosen), runs(*json.loads(json.dumps(chosen)))
    assert rendered_page(first) == rendered_page(second)
    assert rendered_page(first[:1]) == rendered_page(second[:1])
    assert paper_figures(first[:1], ("pdf", "svg")) == paper_figures(second[:1], ("pdf", "svg"))


@pytest.mark.usefixtures("unpainted")
def test_all_files_or_none(tmp_path):
    place = tmp_path / "new" / "figures"
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "cost.pdf").mkdir()
    with pytest.raises(InvalidFile, match=r"Nothing was written .* cost\.pdf is a directory there"):
        write_comparison([network()], tmp_path / "a.html", figures=PaperFigures(tmp_path / "taken"))
    assert [p.name for p in tmp_path.rglob("*")] == ["taken", "cost.pdf"]
    written = write_comparison([network()], tmp_path / "a.html", figures=PaperFigures(place))
    assert set(written) == {tmp_path / "a.html", *place.iterdir()}


@pytest.mark.usefixtures("unpainted")
def test_runs_are_named_by_the_shortest_ends_of_their_paths(tmp_path):
    for name in ("one/a", "two/a", "two/b"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "result.json").write_text(json.dumps(network()))
    found = read_runs([tmp_path / "one/a", tmp_path / "two/a", tmp_path / "two/b/result.json"])
    assert [run.name for run in found] == ["one/a", "two/a", "b"]
    text = render_comparison(found)
    assert str(tmp_path) not in text
