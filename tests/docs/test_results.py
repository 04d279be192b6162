"""Results pages: every experiment has one, made from the record that comes with the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from icgd.experiments.cells import digest_of
from icgd.experiments.experiment import SCALES, verdict
from icgd.experiments.over_seeds import ENOUGH
from icgd.experiments.record import recorded, rounded
from icgd.experiments.registry import EXPERIMENTS

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
    assert verdict(EXPERIMENTS[name].claims(record.rows)) in text
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


def test_the_index_lists_all():
    assert (DOCS / "index.md").read_text(encoding="utf-8") == index()


def test_no_page_is_left_over():
    pages = {path.stem for path in Path(DOCS).glob("*.md")} - {"index"}
    assert pages == set(EXPERIMENTS)
