"""docs/costs.md says what the code computes now."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from icgd.costs import tables

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "costs.md"


def generator():
    """tools/generate_costs.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(
        "generate_costs", ROOT / "tools" / "generate_costs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate_costs = generator()


@pytest.mark.parametrize("name", list(generate_costs.BLOCKS))
def test_committed_tables_are_what_the_code_computes(name):
    """`make costs` makes them anew."""
    page = PAGE.read_text(encoding="utf-8")
    assert generate_costs.filled(page, {name: generate_costs.BLOCKS[name]}) == page


def test_every_marker_has_a_table():
    page = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- begin (\w+) -->", page)) == set(generate_costs.BLOCKS)
    with pytest.raises(SystemExit, match="markers"):
        generate_costs.filled("nothing here")


def test_numbers_in_the_text_are_those_of_the_tables():
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    even = tables.break_even_depth("linear")
    assert f"stays ahead until N = {even}" in text
    assert f"needs N = {even} to be as expensive" in text
    seventh = [row.ratio["nonzeros"] for row in tables.ratio_table("relu", 1e-6)]
    assert all(1 / 8.5 < ratio < 1 / 6.5 for ratio in seventh)


def test_numbers_are_short():
    shown = [generate_costs.number(v) for v in (None, 0.345, 10.86, 171.2, 4503.4, 2.5e9, 12.0)]
    assert shown == ["not reached", "0.34", "10.9", "171", "4,503", "2.50e+09", "12"]
