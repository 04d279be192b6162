"""The theorem table: every row passes, and a row that should not pass does not."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest
import torch
from rich.console import Console

import icgd
from icgd.papers.cot.section_3 import cost as cot_statistics_cost
from icgd.papers.cot.section_3 import lemmas as cot_statistics_lemmas
from icgd.papers.cot.section_3 import printed as cot_statistics_printed
from icgd.papers.cot.section_3 import statements as cot_statistics
from icgd.papers.cot.section_4 import examples as cot_examples
from icgd.papers.cot.section_4 import printed as cot_printed
from icgd.papers.cot.section_4 import propositions as cot_propositions
from icgd.papers.cot.section_4 import statements as cot_statements
from icgd.papers.theorem_table import (
    PAPERS,
    VERDICTS,
    Row,
    checkers,
    checks,
    judge,
    labelled,
    render,
    render_tallies,
    tally,
    theorem_table,
    to_json,
)

SECTION_3 = [
    "Definition 3.1",
    "Lemma 3.1",
    "Theorem 3.1",
    "Theorem 3.2",
    "Theorem 3.3",
    "Remark 3.3",
    "C.3, last step",
    "Lemma A.1",
    "Lemma A.2",
    "Lemma A.3",
    "Lemma A.4",
]
STATEMENTS = [
    *SECTION_3,
    "Lemma A.5",
    "Definition 4.3",
    "Definition 4.4",
    "Theorem 4.1",
    "Theorem 4.2",
    "Remark 4.1, O(N) saving",
    "Proposition 4.1",
    "Proposition 4.2",
    "Proposition 4.3",
    "Proposition 4.4",
    "C.9, Steps 1 and 2",
]
VERDICT = {
    "Lemma A.1": "holds",
    **dict.fromkeys(
        ["Lemma 3.1", "Lemma A.5", "Remark 4.1, O(N) saving", "Proposition 4.4"], "reading"
    ),
    **dict.fromkeys(
        [
            "Theorem 3.1",
            "Theorem 3.2",
            "Theorem 3.3",
            "Lemma A.2",
            "Lemma A.4",
            "Proposition 4.3",
            "C.9, Steps 1 and 2",
        ],
        "false",
    ),
}
"""All others are slips."""
DESCENT = {
    "Theorem 3.1": 1e-9,
    "Theorem 3.2": 1e-9,
    "Theorem 3.3": 0.2,
    "Remark 3.3": 0.01,
    "C.3, last step": 0.1,
    "Remark 4.1, O(N) saving": 0.5,
    "Lemma A.1": 0.1,
    "Lemma A.3": 0.2,
}


@pytest.fixture(scope="module")
def rows(row_of):
    return [row_of(checker) for checker in checkers("COT").values()]


def row(**changes) -> Row:
    values = {
        "refuted": True,
        "errata": ("COT 29",),
        "counterexample": "1 > 0",
        "corrected": "c",
        "measured": 1e-16,
        "bound": 1e-14,
    }
    return judge("S", "p", **{**values, **changes})


def test_every_statement_has_a_passing_row(rows):
    assert [r.statement for r in rows] == STATEMENTS == list(checkers("COT"))
    for r in rows:
        assert r.passed, r
        assert r.printed_verdict == VERDICT.get(r.statement, "slip"), r
        assert bool(r.errata) == (r.printed_verdict != "holds")
        assert 0.0 <= r.measured <= r.bound
        assert r.printed
        assert r.corrected
        # A counterexample is numbers, and they were computed.
        assert any(c.isdigit() for c in r.counterexample)
        assert "nan" not in r.counterexample


def test_bounds_mean_something(rows):
    by_name = {r.statement: r.bound for r in rows}
    for r in rows[:-1]:
        # Bounds on the distance to a minimiser count steps; only those on steps are rounding.
        if r.statement not in DESCENT:
            assert r.bound < 1e-10, r
    for statement, most in DESCENT.items():
        assert by_name[statement] <= most
    # The spread of a round is measured against itself: the bound must be tight, not tiny.
    assert rows[-1].bound < 1.01 * rows[-1].measured


def test_table_is_reproducible(rows):
    again = {r.statement: r for r in rows}
    for statement in (
        "Theorem 3.1",
        "Lemma A.2",
        "Lemma A.5",
        "Definition 4.4",
        "Proposition 4.3",
        "Proposition 4.4",
    ):
        assert checkers("COT")[statement]() == again[statement]


@pytest.mark.parametrize(
    ("changes", "passed"),
    [
        ({}, True),
        ({"measured": 0.0, "bound": 0.0}, True),
        ({"measured": 2e-14}, False),
        ({"measured": math.nan}, False),
        ({"bound": math.nan}, False),
        ({"measured": math.nan, "bound": math.nan}, False),
        ({"measured": math.inf, "bound": math.inf}, False),
        ({"bound": math.inf}, False),
        ({"measured": -1.0}, False),
        ({"refuted": False}, False),
        ({"also": False}, False),
        ({"refuted": False, "errata": ()}, True),
        ({"refuted": True, "errata": ()}, False),
    ],
)
def test_judgement(changes, passed):
    judged = row(**changes)
    assert judged.passed is passed
    assert judged.printed_verdict == ("false" if changes.get("refuted", True) else "holds")


@pytest.mark.parametrize(
    ("errata", "verdict"),
    [
        (("COT 29", "COT 30"), "false"),
        (("COT 30", "COT 29"), "false"),
        (("COT 2", "COT 8", "COT 9"), "slip"),
        (("COT 9", "COT 8"), "reading"),
        (("COT 14",), "float"),
    ],
)
def test_a_statement_is_as_wrong_as_its_worst_part(errata, verdict):
    judged = row(errata=errata)
    assert (judged.printed_verdict, judged.passed) == (verdict, True)
    assert row(errata=errata, refuted=False).passed is False


@pytest.mark.parametrize("name", ["COT 24", "COT 99", "XYZ 1", "29", "COT"])
def test_unknown_entries_are_refused(name):
    with pytest.raises(
        icgd.InvalidParameter, match=rf"`errata` must name an entry .* Got '{name}'"
    ):
        row(errata=(name,))


def test_tallies(rows):
    count = tally(rows)
    assert (count.statements, count.passed) == (len(rows), len(rows))
    assert list(count.verdicts) == list(VERDICTS) == ["holds", "false", "slip", "reading", "float"]
    assert sum(count.verdicts.values()) == len(rows)
    assert count.verdicts == {v: [r.printed_verdict for r in rows].count(v) for v in VERDICTS}
    mixed = [row(), row(refuted=False, errata=()), row(errata=("COT 9",), measured=math.nan)]
    assert tally(mixed).verdicts == {"holds": 1, "false": 1, "slip": 0, "reading": 0, "float": 1}
    assert tally(mixed).passed == 2
    with pytest.raises(icgd.InvalidParameter, match="'fails'"):
        tally([replace(row(), printed_verdict="fails")])
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_tallies({"COT": rows, "DEEP": mixed}))
    text = console.export_text()
    cells = [
        [c.strip() for c in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line
    ]
    expected = [str(n) for n in (count.statements, *count.verdicts.values(), count.passed)]
    assert ["COT", *expected] in cells
    assert ["DEEP", "3", "1", "1", "0", "0", "1", "2"] in cells


def test_rows_of_several_papers_are_labelled(rows):
    named = labelled({"COT": rows, "DEEP": [row()]})
    assert named[0].statement == f"[COT] {rows[0].statement}"
    assert named[-1].statement == "[DEEP] S"
    assert len(named) == len(rows) + 1


def test_unknown_paper():
    known = r"`paper` must be one of \['ALGO', 'BRIDGE', 'COT', 'DEEP', 'LSA'\]. Got 'XYZ'"
    with pytest.raises(icgd.InvalidParameter, match=known):
        theorem_table("XYZ")


def read(text):
    """The rows that `to_json` wrote."""
    written = json.loads(text)
    for entry in written:
        entry.update(measured=float(entry["measured"]), bound=float(entry["bound"]))
        entry.update(errata=tuple(entry["errata"]))
    return [Row(**entry) for entry in written]


def test_json_round_trip(rows):
    odd = [
        row(measured=math.nan),
        row(bound=math.inf),
        replace(row(), statement='quote " and [brackets]'),
    ]
    text = to_json([*rows, *odd])
    assert "NaN" not in text
    assert "Infinity" not in text
    back = read(text)
    assert back[: len(rows)] == rows
    assert math.isnan(back[-3].measured)
    assert not back[-3].passed
    assert back[-2:] == odd[-2:]
    assert read(to_json([])) == []


def test_rendering(rows):
    console = Console(width=240, record=True, file=io.StringIO())
    failed = row(measured=math.nan, counterexample="[bold]x[/bold]")
    console.print(render([*rows, failed]))
    text = console.export_text()
    assert text.count("pass") >= len(rows)
    assert "FAIL" in text
    assert "[bold]x[/bold]" in text
    assert "Proposition 4.4" in text
    # Every failing row says its class and its entries.
    flat = " ".join(text.replace("│", " ").split())
    assert "slip: erratum COT 26" in flat
    assert "false: errata COT 21, COT 22" in flat
    assert "fails" not in {r.printed_verdict for r in rows}


def test_papers_register_their_checkers(monkeypatch):
    monkeypatch.setitem(PAPERS, "TEST", ())
    monkeypatch.setattr("icgd.papers.theorem_table._CHECKERS", {})
    first = checks("TEST", "one")(lambda: row(measured=1.0))
    checks("TEST", "two")(row)
    assert list(checkers("TEST")) == ["one", "two"]
    assert checkers("TEST")["one"] is first
    assert [r.passed for r in theorem_table("TEST")] == [False, True]


# -- rows that must not pass ---------------------------------------------------------------------


def test_row_notices_a_failed_probe(monkeypatch):
    good = cot_examples.probe_results()
    for i, kind in ((0, "forward"), (1, "x")):
        bad = [replace(r, passed=False, error=math.nan) if r.kind == kind else r for r in good]
        monkeypatch.setattr(cot_examples, "probe_results", lambda bad=bad: bad)
        checker = (cot_statements.theorem_41, cot_propositions.proposition_41)[i]
        assert not checker().passed
        assert not cot_propositions.proposition_43().passed
    assert cot_statements.theorem_42().passed


def test_row_notices_a_printed_form_that_holds(monkeypatch):
    def mended(s, lr):
        return s.W - lr * torch.outer(s.delta, s.inp)

    monkeypatch.setattr(cot_printed, "printed_update", mended)
    assert cot_statements.definition_43().printed_verdict == "holds"
    assert not cot_statements.definition_43().passed
    monkeypatch.setattr(cot_printed, "shifted_gate", lambda w, m: torch.where(w <= -m / 2, 0.0, w))
    assert cot_propositions.proposition_43().printed_verdict == "holds"
    assert not cot_propositions.proposition_43().passed


def test_row_notices_a_broken_layer(monkeypatch):
    case = cot_examples.example()
    broken = icgd.compile(case.network, icgd.SGD(lr=cot_examples.LR), radius=16.0)
    broken.step.attention.levels.data[0] *= 1.001
    broken.step.attention.levels.data[1] *= 1.001
    monkeypatch.setattr(cot_statements, "program_for", lambda network: broken)
    assert not cot_statements.definition_44().passed


def test_rows_of_section_3_notice_printed_forms_that_hold(monkeypatch):
    def mended(X, y, lam, eta):
        w = torch.zeros(X.shape[1], dtype=X.dtype)
        while True:
            step = w - eta * X.T @ (X @ w - y) / X.shape[0]
            w = cot_statistics_printed.soft(step, eta * lam)
            yield w

    monkeypatch.setattr(cot_statistics_printed, "penalised_descent", mended)
    assert cot_statistics_lemmas.lemma_a3().printed_verdict == "holds"
    monkeypatch.setattr(cot_statistics_printed, "printed_norm", lambda t, eps, w: 2 * w + t * eps)
    for checker in (cot_statistics_lemmas.lemma_a2, cot_statistics_lemmas.lemma_a4):
        assert checker().printed_verdict == "holds"
    monkeypatch.setattr(cot_statistics_printed, "prompt_rows", cot_statistics_printed.declared_rows)
    monkeypatch.setattr(cot_statistics_printed, "best_bias_free", lambda cut, reach: (0.0, 0.0))
    monkeypatch.setattr(
        cot_statistics_printed, "printed_step_error", lambda L, C, R: 0.0039 * R**2 / (8 * C * L**2)
    )
    monkeypatch.setattr(cot_statistics_printed, "pooled_head", cot_statistics_printed.product_head)
    for checker in (
        cot_statistics.definition_31,
        cot_statistics.lemma_31,
        cot_statistics.theorem_33,
        cot_statistics_cost.lost_beta,
    ):
        found = checker()
        assert found.printed_verdict == "holds", found
        assert not found.passed


def test_rows_of_section_3_notice_programs_that_err(monkeypatch):
    honest = cot_statistics.checked
    names = {"ridge": "theorem_32", "lasso": "theorem_33", "poisson": "theorem_31"}
    for broken, checker in names.items():

        def dishonest(name, temperature, steps=None, broken=broken):
            check = honest(name, temperature, steps)
            if name != broken or temperature != "hard":
                return check
            last = replace(check.rounds[-1], distance=check.rounds[-1].theorem * 1.01)
            return replace(check, rounds=[*check.rounds[:-1], last])

        monkeypatch.setattr(cot_statistics, "checked", dishonest)
        assert not getattr(cot_statistics, checker)().passed
