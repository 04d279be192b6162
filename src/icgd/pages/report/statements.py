"""Which statements of the papers stand behind a run, read off the code and the theorem table.

What a construction is made of its description says; which statement each part implements stands in the
part's docstring (`Statement: [COT] Theorem 4.1`), and what checks a statement is registered in the
modules of the theorem table. Both are read from the source and never run: a report shows where the
check is, and the command that does it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import icgd
from icgd.base.construction import constructions
from icgd.papers.theorem_table import PAPERS

_STATEMENT = re.compile(r"^\s*Statement: (\[[A-Z]+\] .+?)\s*$", re.MULTILINE)
_OF_MODEL = {
    "ridge": (
        "problems.linear_models:Ridge",
        "verification.bounds.linear_model_theory:gd_distance",
    ),
    "lasso": ("problems.linear_models:Lasso", "verification.bounds.linear_model_theory:pgd_gap"),
    "logistic": (
        "problems.linear_models:GLM",
        "verification.bounds.linear_model_theory:gd_distance",
    ),
    "poisson": (
        "problems.linear_models:GLM",
        "verification.bounds.linear_model_theory:gd_distance",
    ),
}
"""Of linear models: the theorem is that of the model."""


@dataclass(frozen=True)
class StatementRow:
    """A row of the theorem table that a run touches.

    statement   paper and place, as the table calls it
    title       what it says, in the words of its checker
    module      where the part of the construction stands that rests on it
    checked_by  the function that checks it
    command     does so
    """

    statement: str
    title: str
    module: str
    checked_by: str
    command: str


def statement_rows(result: Mapping[str, Any]) -> list[StatementRow]:
    """The rows behind a result, in the order of the table; none for a construction of another kind."""
    known = constructions().get(str((result.get("config") or {}).get("construction")))
    if known is None or not known.parts:
        return []
    parts = (*known.parts, *_OF_MODEL.get(str(result.get("model")), ()))
    # Networks share parts; of each construction only its own paper's statements are meant.
    only = known.statement[1:].partition("]")[0] if known.method is not None else None
    touched: dict[str, list[str]] = {}
    for part in parts:
        for statement in part_statements(part):
            if only is None or statement.startswith(f"[{only}]"):
                module = f"icgd.{part.partition(':')[0]}"
                touched.setdefault(statement, [])
                if module not in touched[statement]:
                    touched[statement].append(module)
    papers = sorted({statement[1:].partition("]")[0] for statement in touched} & set(PAPERS))
    rows = []
    for paper in papers:
        for key, title, checked_by, statements in table_checkers(paper):
            # The part nearest to the whole construction comes last in the list.
            homes = [home for statement in statements for home in touched.get(statement, ())]
            if homes:
                rows.append(
                    StatementRow(
                        f"[{paper}] {key}",
                        title,
                        homes[-1],
                        checked_by,
                        f"icgd verify --paper {paper}",
                    )
                )
    return rows


@cache
def part_statements(part: str) -> tuple[str, ...]:
    """The statements a part's docstrings name; `module:name` is one definition and what is in it."""
    module, _, name = part.partition(":")
    return tuple(
        dict.fromkeys(
            match
            for qualified, docstring in _docstrings(_tree(f"icgd.{module}"))
            if not name or qualified == name or qualified.startswith(f"{name}.")
            for match in _STATEMENT.findall(docstring)
        )
    )


@cache
def table_checkers(paper: str) -> tuple[tuple[str, str, str, tuple[str, ...]], ...]:
    """Key, title, name and statements of every checker of a paper, by its `@checks(...)` line."""
    checkers = []
    for module in PAPERS[paper]:
        for node in _tree(module).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            key = _registered(node, paper)
            if key is not None:
                docstring = ast.get_docstring(node) or ""
                title = docstring.partition("\n")[0]
                statements = tuple(_STATEMENT.findall(docstring))
                checkers.append((key, title, f"{module}.{node.name}", statements))
    return tuple(checkers)


def _registered(node: ast.FunctionDef, paper: str) -> str | None:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name):
            given = [a.value for a in decorator.args if isinstance(a, ast.Constant)]
            if decorator.func.id == "checks" and len(given) == 2 and given[0] == paper:
                return str(given[1])
    return None


def _tree(module: str) -> ast.Module:
    """The source of a module of this package, parsed; nothing is imported."""
    parts = module.split(".")[1:]
    path = Path(icgd.__file__).parent.joinpath(*parts).with_suffix(".py")
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except OSError:  # installed without sources: the report goes without these rows
        return ast.Module(body=[], type_ignores=[])


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    def walk(nodes: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}{node.name}"
                yield name, ast.get_docstring(node) or ""
                yield from walk(node.body, f"{name}.")

    return walk(tree.body, "")
