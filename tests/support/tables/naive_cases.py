"""Rows in which naive predictors are hopeless, so that all models have learned, or better than any model."""

from __future__ import annotations

from typing import Any

from icgd.lab.experiments.naive import NAIVE
from icgd.lab.experiments.over_seeds import select
from icgd.papers.algo.experiments.compiled import GD
from icgd.papers.algo.experiments.nmt import NO_SOURCE
from icgd.papers.algo.experiments.translation import TOKEN

HUGE, TINY = 1e9, 1e-12
Rows = list[dict[str, Any]]


def all_have_learned(name: str, rows: Rows) -> None:
    """Naive predictors that every model beats."""
    _set(name, rows, good=False)


def none_has_learned(name: str, rows: Rows) -> None:
    """Naive predictors that no model reaches."""
    _set(name, rows, good=True)


def _set(name: str, rows: Rows, *, good: bool) -> None:
    error = TINY if good else HUGE
    for row in select(rows, predictor=NAIVE):
        for measure in ("error", "relative"):
            row[measure] = {n: [error] * len(v) for n, v in row[measure].items()}
        row["r2"] = {n: [2.0 if good else -HUGE] * len(v) for n, v in row["r2"].items()}
    special = {
        "algo-fig5": _first_iterates,
        "algo-nmt": _token_frequencies,
        "cot-d": _guesses,
        "lsa-train": _zero_weights,
        "deep-h": _scores,
        "bridge-resources": _functions,
    }
    if name in special:
        special[name](rows, error)


def _first_iterates(rows: Rows, error: float) -> None:
    for row in select(rows, what="algorithms"):
        # The step of gradient descent that models are also compared with stays, unless models are to fail.
        row["error"][GD][0] = error
        if error == TINY:
            row["error"][GD][1] = error


def _token_frequencies(rows: Rows, error: float) -> None:
    for row in select(rows, model=NO_SOURCE):
        row["unigram"] = error
        if error == TINY:
            row["error"][TOKEN] = [error]


def _guesses(rows: Rows, error: float) -> None:
    for row in rows:
        row["baselines"] = dict.fromkeys(row["baselines"], error)


def _zero_weights(rows: Rows, error: float) -> None:
    for row in rows:
        if "by_step" in row:
            row["by_step"][0][0] = error
        elif row["part"] in ("one step", "loop"):
            # Their naive predictor is known in closed form, 1/2 E |w*|^2: the layers move instead.
            row["mean"] = [HUGE if error == TINY else 0.6, *row["mean"][1:]]


def _scores(rows: Rows, error: float) -> None:
    for row in select(rows, how=NAIVE):
        row["r2"] = dict.fromkeys(row["r2"], 2.0 if error == TINY else -HUGE)


def _functions(rows: Rows, error: float) -> None:
    for row in select(rows, what=NAIVE):
        row["naive"] = {target: dict.fromkeys(by, error) for target, by in row["naive"].items()}
