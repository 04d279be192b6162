"""docs/errata.md, the headline of [COT]: the saving of a power of N, under the models it could mean."""

from __future__ import annotations

import re
from pathlib import Path

from icgd.costs import tables
from icgd.papers.cot.section_4.costs import EXPECTED, saving_of_a_power_of_n

ERRATA = Path(__file__).parents[3] / "docs" / "errata.md"


def test_the_saving_depends_on_the_model():
    row = saving_of_a_power_of_n()
    assert row.passed
    assert row.printed_verdict == "reading"
    assert set(EXPECTED.values()) == {2.0, 1.0, 0.0}
    for model, power in EXPECTED.items():
        assert abs(tables.ratio_exponent(model, "tanh") - power) < 0.05


def test_document_figures_of_costs_are_the_computed_ones():
    text = " ".join(ERRATA.read_text(encoding="utf-8").split())
    row = tables.ratio_row(16)
    for model in ("dense", "linear", "nonzeros"):
        assert re.search(rf"\b{row.ratio[model]:.2g}\b", text), model
    assert f"from round {tables.break_even_rounds(3)} on" in text
    assert f"from N = {tables.break_even_depth('linear')} on" in text
