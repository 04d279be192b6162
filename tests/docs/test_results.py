"""Results pages: every experiment has one, made from the record that comes with the package."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path

import pytest
from naive_cases import none_has_learned

from icgd.errors import InvalidFile
from icgd.lab.experiments.claim import Verdict, tally
from icgd.lab.experiments.experiment import SCALES
from icgd.lab.experiments.over_seeds import ENOUGH
from icgd.lab.experiments.record import recorded, restored, rounded, verdicts_of
from icgd.lab.sweeps.cells import Workplace, digest_of
from icgd.papers.registry import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[2]


def _tool():
    """tools/generate_results.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(
        "generate_results", ROOT / "tools" / "generate_results.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
DOCS, FIGURES, index, page_of = TOOL.DOCS, TOOL.FIGURES, TOOL.index, TOOL.page_of
every_experiment = pytest.mark.parametrize("name", list(EXPERIMENTS))
HALF_AN_HOUR = 30 * 60


@every_experiment
def test_records_have_enough_seeds_and_took_half_an_hour_at_most(name):
    record = recorded(name)
    assert record.scale == "laptop"
    assert record.seeds >= ENOUGH
    assert record.seconds <= HALF_AN_HOUR


@every_experiment
def test_pages_are_what_the_records_say(name):
    record = recorded(name)
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert text == page_of(name, record), "python -m tools.generate_results"
    claims = EXPERIMENTS[name].claims(record.rows)
    assert f"{tally(claims)}.**" in text
    assert record.verdicts == verdicts_of(claims), "python -m tools.generate_results"
    assert (DOCS / FIGURES / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@every_experiment
def test_records_are_of_the_settings_of_today(name):
    """A record of another configuration would stand beside settings it was not made with."""
    experiment, record = EXPERIMENTS[name], recorded(name)
    assert record.cells == digest_of(experiment.as_recorded(record.rows).cells(record.scale))
    assert record.settings == rounded(experiment.size(record.scale).settings())


@every_experiment
def test_records_tell_what_every_scale_costs(name):
    record = recorded(name)
    assert set(record.costs) | {record.scale} == set(SCALES)
    assert 0 < record.costs["smoke"] < 60
    assert record.costs["overnight"] < 8 * 3600
    assert "| time; trainings alone but for laptop |" in (DOCS / f"{name}.md").read_text(
        encoding="utf-8"
    )


def test_the_index_has_a_tally_for_each_experiment_and_a_mark_for_each_claim():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert text == index()
    lines = text.splitlines()
    for name, experiment in EXPERIMENTS.items():
        claims = experiment.claims(recorded(name).rows)
        (row,) = [line for line in lines if line.startswith(f"| [{name}]")]
        assert row.endswith(f"| {tally(claims)} |")
        # A tally, no paragraph: the claims themselves are below.
        assert not any(claim.short in row for claim in claims)
        start = lines.index(f"### {name}") + 2
        for claim, line in zip(claims, lines[start:], strict=False):
            assert line.startswith(f"- {claim.verdict.mark} ")
            assert claim.short in line


def test_nothing_is_promised_of_scales_without_a_record():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert {recorded(name).scale for name in EXPERIMENTS} == {"laptop"}
    assert "where orderings are decided" not in text


# -- what records come to -----------------------------------------------------------------------------------


def verdicts(name: str) -> dict[str, Verdict]:
    return {c.short: c.verdict for c in EXPERIMENTS[name].claims(recorded(name).rows)}


@pytest.mark.parametrize("name", ["algo-fig2", "algo-fig4", "deep-g1"])
def test_models_that_ridge_beats_decide_nothing(name):
    """Their trainings are too short: 1500, 500 and 2000 steps."""
    assert set(verdicts(name).values()) == {Verdict.UNDERTRAINED}


NOT_GATED = {
    "cot-d": {
        "the plain block beats copying, on weight updates too",
        "chains of the plain block end nearer than weights that are left alone",
        "one layer that multiplies learns the operators at d = 5",
    },
    "bridge-resources": {
        "three layers that are written down come as near to a ball as one likes",
        "depth follows x^2 better with as many units",
        "BRIDGE's transformer is smaller for depth on x^2, for a small error",
    },
    "algo-nmt": {"all three models use the source"},
}
"""Claims without a trained model, and those that ask themselves whether a model beats a naive predictor."""


@every_experiment
def test_no_experiment_says_yes_or_no_on_models_that_have_not_learned(name):
    """The same records beside naive predictors that no model reaches: no claim on models is decided."""
    rows = copy.deepcopy(recorded(name).rows)
    none_has_learned(name, rows)
    claims = EXPERIMENTS[name].claims(rows)
    assert {claim.short for claim in claims if not claim.gated} == NOT_GATED.get(name, set())
    decided = [claim.short for claim in claims if claim.gated and claim.holds is not None]
    assert decided == []


def test_losses_of_the_plain_block_miss_the_first_bar_and_meet_the_second():
    found = verdicts("cot-d")
    assert found["losses of the plain block fall by half"] is Verdict.NOT_REPRODUCED
    assert found["losses of the plain block fall at all"] is Verdict.REPRODUCED


def test_chains_are_told_as_distances_with_and_without_students_on_which_sgd_explodes():
    record = recorded("cot-d")
    text = (DOCS / "cot-d.md").read_text(encoding="utf-8")
    rows = [
        r
        for r in record.rows
        if r["case"].startswith("products") and r["case"].endswith("new students")
    ]
    first = [r["chains"]["3"] for r in rows if r["d"] == 5]
    parts = [(c["off_mean"][-1] / c["moved_mean"][-1]) ** 0.5 for c in first]
    assert sorted(parts)[len(parts) // 2] == pytest.approx(0.205, abs=0.001)
    assert "off by 0.205 (0.153..0.3) of the distance" in text
    assert "0.212 (0.153..overflow)" in text
    assert "0.345 (0.319..0.531)" in text
    assert "39%" in text
    found = verdicts("cot-d")
    counting = [v for short, v in found.items() if short.endswith("on which SGD explodes")]
    assert counting == [Verdict.OPEN] * 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("algo-fig3", "Equation 2 applies the loop to its own output alone; it shows no injection"),
        ("algo-nmt", "in the paper these are 12, 10, 12 and 5e-05"),
        ("lsa-train", "W24 is frozen at -1 in every start"),
        ("bridge-resources", "at a squared error of 0.0425 (0.0389..0.0468), matrices"),
        ("bridge-resources", "Theorem 3 is about errors that go to 0"),
        ("deep-g2", "only if its networks are wide"),
        ("cot-d", "which settings lead there is unknown"),
    ],
)
def test_pages_say_what_they_do_not_show(name, words):
    assert words in (DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words",
    ["whether the loop is given its input anew", "cannot be compared", "cannot be done with ReLU"],
)
def test_no_page_says_more_than_was_shown(words):
    for path in DOCS.glob("*.md"):
        assert words not in path.read_text(encoding="utf-8"), path.name


# -- rows that joined a record ------------------------------------------------------------------------------


def added(name: str):
    """Cells that a record gained, with their rows; and how they were computed."""
    record = recorded(name)
    cells = EXPERIMENTS[name].as_recorded(record.rows).cells(record.scale)
    (addition,) = record.added
    start = len(cells) - addition.n_rows
    return addition, cells[:start], list(zip(cells[start:], record.rows[start:], strict=True))


COMPLETED = [name for name in EXPERIMENTS if recorded(name).added]


def test_every_experiment_whose_gate_needs_naive_predictors_has_them():
    assert set(COMPLETED) == {
        "algo-fig2",
        "algo-fig3",
        "algo-fig4",
        "deep-g1",
        "deep-g2",
        "deep-g3",
        "deep-h",
        "bridge-resources",
    }


@pytest.mark.parametrize("name", COMPLETED)
def test_additions_leave_the_rest_of_a_record_as_it_was(name):
    addition, before, new = added(name)
    assert addition.before == digest_of(before)
    assert addition.command == f"{TOOL.COMPLETE} {name}"
    assert not any(cell.steps for cell, _ in new)  # nothing was trained


@pytest.mark.parametrize("name", COMPLETED)
def test_the_first_row_that_was_added_can_be_computed_again(name, tmp_path):
    _, _, ((cell, row), *_) = added(name)
    again = restored(rounded({**cell.key, **cell.do(Workplace(tmp_path))}))
    assert set(again) == set(row)
    assert numbers(again) == pytest.approx(numbers(row), rel=1e-3, abs=1e-9)


def numbers(value) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [n for v in value for n in numbers(v)]
    return [value] if isinstance(value, (int, float)) else []


def test_a_record_of_other_settings_is_not_completed():
    record = recorded("algo-fig3")
    with pytest.raises(InvalidFile, match="other settings: icgd reproduce algo-fig3"):
        TOOL.lacking("algo-fig3", record.model_copy(update={"cells": "0123456789"}))
    assert TOOL.lacking("algo-fig3", record) == []


def test_completing_adds_what_is_lacking_and_says_how():
    record = recorded("deep-h")
    (addition,) = record.added
    short = record.model_copy(
        update={"rows": record.rows[: -addition.n_rows], "cells": addition.before, "added": []}
    )
    full = TOOL.completed("deep-h", short)
    assert full.cells == record.cells
    assert [row["how"] for row in full.rows] == [row["how"] for row in record.rows]
    assert full.added[0].n_rows == addition.n_rows


def test_no_page_is_left_over():
    pages = {path.stem for path in Path(DOCS).glob("*.md")} - {"index"}
    assert pages == set(EXPERIMENTS)
