"""Random programs: all executors refuse the same data and agree on the rest; what passes `verify` is right.

A few draws of every family run with the suite; `make slow` runs four hundred of each.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from random_programs import FAMILIES, Draw, apart, flat

import icgd
from icgd.errors import IcgdError, InvalidParameter

FEW, MANY = 8, 400
ROUNDING = 1e-9
"""Executors sum in different orders; a unit's fit divides by its spacing, which costs digits.

Where it costs more (data far smaller than a loop's range, steep units of forward mode), executors owe
each other the bound that `verify` states for these data.
"""


def _draw(family: str, seed: int) -> Draw | None:
    """The draw, or None if these options are refused at compile time with a sentence."""
    try:
        return FAMILIES[family](seed)
    except IcgdError:
        return None


def _fate(draw: Draw, executor: str) -> tuple[str, list[torch.Tensor], int] | None:
    """What a run comes to: its error's name or "", its weights, the units near a kink."""
    try:
        run = draw.program.run(draw.X, draw.y, executor=executor, **draw.run)
    except InvalidParameter as error:
        if error.name == "executor":
            return None
        return "InvalidParameter", [], 0
    except IcgdError as error:
        return type(error).__name__, [], 0
    near = getattr(run.near_kink, "count", 0)
    return "", flat(run.weights), int(near)


def executors_agree(family: str, seeds: range) -> list[str]:
    """Draws on which executors come to different ends."""
    wrong = []
    for seed in seeds:
        draw = _draw(family, seed)
        if draw is None:
            continue
        fates = {name: _fate(draw, name) for name in ("structured", "sparse", "dense")}
        known = {name: fate for name, fate in fates.items() if fate is not None}
        ends = {name: fate[0] for name, fate in known.items()}
        if len(set(ends.values())) > 1:
            wrong.append(f"{family} {seed}: {ends}")
            continue
        if any(ends.values()) or any(fate[2] for fate in known.values()):
            # Refused by all, or a unit so near its kink that rounding may flip it.
            continue
        size = 1.0 + max(float(w.abs().max()) for w in known["structured"][1])
        gap = max(apart(known["structured"][1], fate[1]) for fate in known.values())
        if not gap <= ROUNDING * size and not gap <= _stated_bound(draw):
            wrong.append(f"{family} {seed}: executors {gap:.2g} apart at weights of {size:.2g}")
    return wrong


def _stated_bound(draw: Draw) -> float:
    """How far a step of this program may be from the exact one, by its own word."""
    return float(icgd.verify(draw.program, draw.X, draw.y, **draw.run).round_bound)


def verdicts_are_right(family: str, seeds: range) -> tuple[list[str], int]:
    """Draws that pass `verify` with a wrong step or a bound that says nothing; how many pass."""
    wrong, n_passed = [], 0
    for seed in seeds:
        draw = _draw(family, seed)
        if draw is None or _fate(draw, "structured")[0]:
            continue
        try:
            check = icgd.verify(draw.program, draw.X, draw.y, **draw.run)
        except IcgdError:  # predictions leave the range after the step, or descent diverges
            continue
        if not check.passed:
            continue
        n_passed += 1
        off = apart(_fate(draw, "structured")[1], draw.exact)
        size = 1.0 + max(float(w.abs().max()) for w in draw.exact)
        slack = 1e-13 * size
        if not off <= check.round_bound + slack:
            wrong.append(
                f"{family} {seed}: passed, off by {off:.2g}, bound {check.round_bound:.2g}"
            )
        if not check.round_bound <= draw.update + slack:
            wrong.append(
                f"{family} {seed}: passed, bound {check.round_bound:.2g}, update {draw.update:.2g}"
            )
    return wrong, n_passed


@pytest.fixture(autouse=True)
def quiet():
    """Steps that are too large warn, rightly; what counts here is what comes of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("family", FAMILIES)
def test_executors_agree(family):
    assert executors_agree(family, range(FEW)) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_what_passes_is_right(family):
    wrong, n_passed = verdicts_are_right(family, range(FEW))
    assert wrong == []
    assert n_passed > 0


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_executors_agree_on_many(family):
    assert executors_agree(family, range(MANY)) == []


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_what_passes_is_right_on_many(family):
    wrong, n_passed = verdicts_are_right(family, range(MANY))
    assert wrong == []
    assert n_passed > MANY // 4
