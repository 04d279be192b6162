"""Every experiment runs at smoke scale through the command, writes all it promises, and never runs twice."""

from __future__ import annotations

import json
import math
import shutil
import struct

import pandas as pd
import pytest
from typer.testing import CliRunner

from icgd.cli import app
from icgd.lab.experiments.claim import tally
from icgd.lab.experiments.page import markdown, page
from icgd.lab.experiments.record import read_record, recorded, rounded, verdicts_of
from icgd.lab.experiments.reproduce import FIGURE, PAGE, RECORD, TABLE, write_figure
from icgd.lab.sweeps.cells import RESULT, write_table
from icgd.papers.registry import EXPERIMENTS, find_experiment

every_experiment = pytest.mark.parametrize("name", list(EXPERIMENTS))


def png_size(path) -> tuple[int, int]:
    """Width and height, from the header of the file itself."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", data[16:24])


@every_experiment
def test_the_command_writes_all_it_promises(reproduced, name):
    done = reproduced(name)
    assert done.exit_code == 0, done.stderr
    files = {path.name for path in done.place.iterdir()}
    assert files == {RECORD, FIGURE, PAGE, TABLE, "cells"}
    assert str(done.place / PAGE) in done.stdout.replace("\n", "")
    cells = find_experiment(name).cells("smoke")
    assert f"{len(cells)} of {len(cells)} cells to do" in done.stdout
    assert f"{len(cells)} of {len(cells)} cells" in done.stderr
    assert {path.name for path in (done.place / "cells").iterdir()} == {c.name for c in cells}


@every_experiment
def test_the_figure_is_a_picture_of_sensible_size(reproduced, name):
    width, height = png_size(reproduced(name).place / FIGURE)
    assert 600 <= width <= 2000
    assert 250 <= height <= 1500


@every_experiment
def test_the_page_tells_verdict_command_claims_tables_and_differences(reproduced, name):
    done, experiment = reproduced(name), find_experiment(name)
    text, record = (done.place / PAGE).read_text(encoding="utf-8"), done.record
    claims = experiment.claims(record.rows)
    assert claims
    assert f"{tally(claims)}.**" in text
    first, second = text.split("\n\n")[:2]
    assert first.startswith(f"# {name}: ")
    assert second == experiment.question
    assert second.endswith("?")
    assert second.count("?") + second.count(". ") == 1
    assert f"\nicgd reproduce {name} --scale smoke\n" in text
    for claim in claims:
        assert f"{claim.paper} | {claim.found} | {claim.word} |" in text
        assert all(f"- {short}\n" in text for short in claim.shortfalls)
    for table in experiment.tables(record.rows):
        assert table.title in text
        assert markdown(table) in text
    for point in experiment.differs:
        assert f"- {point}\n" in text
    assert f"]({FIGURE})" in text
    # A cell that held a bar would split its row.
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("| Setting |")}
    assert widths == {len(experiment.sizes)}
    said = " ".join(done.stdout.split())
    assert " ".join(tally(claims).split()) in said


@every_experiment
def test_every_table_is_a_rectangle_without_holes(reproduced, name):
    for table in find_experiment(name).tables(reproduced(name).record.rows):
        assert table.rows
        for row in table.rows:
            assert len(row) == len(table.columns)
            assert all(cell and "nan" not in cell and "none" not in cell for cell in row)


@every_experiment
def test_one_seed_decides_nothing(reproduced, name):
    claims = find_experiment(name).claims(reproduced(name).record.rows)
    assert [claim.holds for claim in claims] == [None] * len(claims)


@every_experiment
def test_the_record_holds_what_the_cells_gave(reproduced, name):
    done = reproduced(name)
    cells = find_experiment(name).cells("smoke")
    told = [json.loads((done.place / "cells" / c.name / RESULT).read_text()) for c in cells]
    record = done.record
    assert record.rows == rounded([t["row"] for t in told])
    assert record.seconds == pytest.approx(sum(t["seconds"] for t in told), rel=1e-4)
    assert record.verdicts == verdicts_of(find_experiment(name).claims(record.rows))
    assert record.added == []
    assert (record.name, record.scale, record.seeds, record.workers) == (name, "smoke", 1, 1)
    for cell, row in zip(cells, record.rows, strict=True):
        assert {k: row[k] for k in cell.key} == json.loads(json.dumps(cell.key))


@every_experiment
def test_all_numbers_that_were_measured_are_finite(reproduced, name):
    def numbers(value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            return [n for v in value for n in numbers(v)]
        return [value]

    measured = [n for row in reproduced(name).record.rows for n in numbers(row)]
    assert all(isinstance(n, (str, bool)) or (n is not None and math.isfinite(n)) for n in measured)


@every_experiment
def test_the_table_has_a_line_per_cell(reproduced, tmp_path, name):
    done = reproduced(name)
    frame = pd.read_parquet(done.place / TABLE)
    rows = [
        json.loads((done.place / "cells" / c.name / RESULT).read_text())["row"]
        for c in find_experiment(name).cells("smoke")
    ]
    write_table(rows, tmp_path / TABLE)
    pd.testing.assert_frame_equal(frame, pd.read_parquet(tmp_path / TABLE))
    assert len(frame) == len(rows)
    assert set(frame.columns) == {key for row in rows for key in row}


@every_experiment
def test_again_runs_no_cell_and_tells_the_same(reproduced, reproduce_smoke, tmp_path, name):
    out = tmp_path / "out"
    place = reproduced(name).copied_to(out)
    results = sorted((place / "cells").glob(f"*/{RESULT}"))
    before = {path: path.stat().st_mtime_ns for path in results}
    models = {p: p.read_bytes() for p in sorted(out.glob("models/*/metrics.jsonl"))}
    files = {f: (place / f).read_bytes() for f in (RECORD, FIGURE, PAGE)}
    again = reproduce_smoke(name, out)
    assert again.exit_code == 0, again.output
    assert "cells:" not in again.stderr  # progress is told when a cell is done
    assert {path: path.stat().st_mtime_ns for path in results} == before
    assert {p: p.read_bytes() for p in sorted(out.glob("models/*/metrics.jsonl"))} == models
    assert {f: (place / f).read_bytes() for f in files} == files


@every_experiment
def test_page_and_figure_come_from_the_record_alone(reproduced, tmp_path, name):
    """A record can be judged and drawn again elsewhere, to the byte."""
    done, experiment = reproduced(name), find_experiment(name)
    assert page(experiment, done.record, FIGURE) == (done.place / PAGE).read_text(encoding="utf-8")
    write_figure(experiment, done.record, tmp_path / FIGURE)
    assert (tmp_path / FIGURE).read_bytes() == (done.place / FIGURE).read_bytes()


@pytest.mark.parametrize("name", ["deep-g2", "algo-fig3"])
def test_a_cell_that_is_lost_is_the_only_one_run_again(reproduced, reproduce_smoke, tmp_path, name):
    place = reproduced(name).copied_to(tmp_path / "out")
    lost, *others = sorted((place / "cells").glob(f"*/{RESULT}"))
    lost.unlink()
    before = {path: path.stat().st_mtime_ns for path in others}
    again = reproduce_smoke(name, tmp_path / "out")
    assert again.exit_code == 0, again.output
    assert again.stderr.count(" cells: ") == 1
    assert {path: path.stat().st_mtime_ns for path in others} == before
    assert read_record(place / RECORD).rows == reproduced(name).record.rows


@every_experiment
def test_a_record_that_comes_with_the_package_can_be_judged(name):
    """Its verdict is what `--list` shows."""
    record = recorded(name)
    experiment = find_experiment(name)
    assert record.name == name
    assert record.seeds >= 3
    assert tally(experiment.claims(record.rows))
    assert experiment.tables(record.rows)


def test_all_runs_every_experiment(reproduced, reproduce_smoke, tmp_path):
    """What is finished is gone through, what is not is run: the same records as one by one."""
    out, left = tmp_path / "out", "deep-g3"
    for name in EXPERIMENTS:
        if name != left:
            shutil.copytree(reproduced(name).out, out, dirs_exist_ok=True)
    said = reproduce_smoke("all", out)
    assert said.exit_code == 0, said.output
    for name in EXPERIMENTS:
        n_cells = len(find_experiment(name).cells("smoke"))
        assert f"{n_cells if name == left else 0} of {n_cells} cells to do" in said.stdout
        assert str(out / f"{name}-smoke" / PAGE) in said.stdout.replace("\n", "")
        record = read_record(out / f"{name}-smoke" / RECORD)
        assert record.rows == reproduced(name).record.rows


def test_restart_measures_again_with_the_models_that_are_there(reproduced, tmp_path):
    place = reproduced("algo-fig3").copied_to(tmp_path / "out")
    results = {path: path.stat().st_mtime_ns for path in place.glob(f"cells/*/{RESULT}")}
    metrics = {
        path: path.read_bytes() for path in (tmp_path / "out").glob("models/*/metrics.jsonl")
    }
    options = ["--scale", "smoke", "--workers", "1", "--out", str(tmp_path / "out"), "--restart"]
    said = CliRunner().invoke(app, ["reproduce", "algo-fig3", *options])
    assert said.exit_code == 0, said.output
    assert "4 of 4 cells to do" in said.stdout
    assert all(path.stat().st_mtime_ns > before for path, before in results.items())
    assert {path: path.read_bytes() for path in metrics} == metrics
    assert read_record(place / RECORD).rows == reproduced("algo-fig3").record.rows
