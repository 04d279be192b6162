"""Tables: every cell is read as it is written, and z-scores hold for numbers of any size."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pandas as pd
import pytest
from forked import MB, forked

from icgd.cli.tables import make_table, read_csv


def written(path, text: str):
    path.write_text(text)
    return read_csv(path)


def test_cells_are_the_numbers_that_were_written(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 2)) * 10.0 ** np.arange(-25, 25)[:, None]
    lines = [",".join(map(repr, row)) for row in values.tolist()]
    frame = written(tmp_path / "t.csv", "\n".join(["a,y", *lines]))
    assert (frame.to_numpy() == values).all()
    assert list(frame.columns) == ["a", "y"]


def test_blank_lines_spaces_quotes_and_integers_are_fine(tmp_path):
    frame = written(tmp_path / "t.csv", '\n"a, b", y\n\n1, 2\n+3 ,"4"\n')
    assert frame["a, b"].tolist() == [1.0, 3.0]
    assert frame["y"].tolist() == [2.0, 4.0]


@pytest.mark.parametrize("exponent", [-300, -200, -8, 0, 8, 200, 300, 307])
def test_standardisation_does_not_depend_on_the_unit(exponent):
    """Squares of 1e200 overflow and those of 1e-200 vanish; neither may make a column constant."""
    unit = 10.0**exponent
    plain = np.array([1.0, -2.0, 4.0, 7.0])
    frame = pd.DataFrame({"a": plain * unit, "y": plain})
    table = make_table(frame, ["y"], standardize=True)
    assert table.X[:, 0] == pytest.approx(table.Y[:, 0], rel=1e-13)
    assert table.features.scale[0] == pytest.approx(unit * table.targets.scale[0], rel=1e-13)
    assert table.features.centre[0] == pytest.approx(unit * table.targets.centre[0], rel=1e-13)


def test_the_largest_numbers_of_both_signs():
    largest = np.finfo(np.float64).max
    frame = pd.DataFrame({"a": [largest, -largest, 1.0, 0.0], "y": [1.0, 2.0, 3.0, 4.0]})
    table = make_table(frame, ["y"], standardize=True)
    assert table.X[:, 0] == pytest.approx(np.sqrt(2.0) * np.array([1.0, -1.0, 0.0, 0.0]))


def test_ordinary_columns_have_the_z_scores_of_the_textbook_to_the_bit():
    values = np.random.default_rng(1).normal(3.0, 50.0, size=(200, 3))
    frame = pd.DataFrame(values, columns=[*"aby"])
    table = make_table(frame, ["y"], standardize=True)
    x = frame[["a", "b"]].to_numpy(copy=True)  # sums depend on the order in memory
    assert ((x - x.mean(axis=0)) / x.std(axis=0) == table.X).all()
    assert (table.features.scale == x.std(axis=0)).all()


def test_a_huge_cell_trains_with_its_scale_on_file(tmp_path, icgd_command):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n2,3\n1e300,4\n3,1\n")
    said = icgd_command(
        "run", tmp_path / "t.csv", "--target", "y", "--widths", "2", "--out", tmp_path / "out"
    )
    assert said.exit_code == 0, said.output
    scales = json.loads((tmp_path / "out" / "result.json").read_text())["standardization"]
    assert scales["features"]["a"]["scale"] == pytest.approx(1e300 * np.sqrt(3) / 4)


@pytest.mark.parametrize("standardize", [True, False])
def test_notes_say_why_there_is_no_r2(standardize):
    def notes(**columns):
        return make_table(pd.DataFrame(columns), ["y", "z"], standardize=standardize).notes

    (one,) = notes(a=[1.0], y=[2.0], z=[3.0])
    assert "single row" in one
    (constant,) = notes(a=[1.0, 2.0, 3.0], y=[0.1, 0.1, 0.1], z=[1.0, 2.0, 3.0])
    assert "'y'" in constant
    assert "R2 is undefined" in constant
    assert notes(a=[1.0, 1.0], y=[0.1, 0.2], z=[1.0, 2.0]) == ()


class TestSizes:
    """A small file may inflate to any size."""

    def bomb(self, path, megabytes):
        piece = b"0,0\n" * 2**18
        with gzip.open(path, "wb") as file:
            file.write(b"a,b\n")
            for _ in range(megabytes):
                file.write(piece)

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    def test_a_table_is_refused_while_it_inflates(self, tmp_path):
        path = tmp_path / "bomb.csv.gz"
        self.bomb(path, 200)
        assert path.stat().st_size < 1e6
        got = forked(lambda: read_csv(path), memory=500 * MB, cpu=5)
        assert got.error == "TooLarge", got.message
        assert str(path) in got.message
        assert "500 MB are available" in got.message
        assert got.peak < 50 * MB

    def test_an_ordinary_one_passes(self, tmp_path):
        path = tmp_path / "ordinary.csv.gz"
        self.bomb(path, 1)
        assert read_csv(path).shape == (2**18, 2)
