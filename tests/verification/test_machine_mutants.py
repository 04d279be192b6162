"""Single changes of a compiled training step: `icgd.verify` rejects them, or they are shown to be harmless.

A change may pass only if nothing that a program gives its user moves by more than the bound of the verdict, on
rows and weights that the verdict has not seen.
"""

from __future__ import annotations

import collections
import itertools

import pytest
import torch
from machine_mutants import (
    map_mutants,
    schedule_mutants,
    token_mutants,
    weight_mutants,
)
from tests.mechanisms.machine.table import data, mlp
from torch.nn import functional

import icgd
from icgd.errors import AssumptionViolated

FAMILIES = {
    "weights": weight_mutants,
    "tokens": token_mutants,
    "schedules": schedule_mutants,
    "maps": map_mutants,
}


@pytest.fixture(scope="module")
def case():
    X, Y = data("class", n_rows=4, n_in=2, n_out=2)
    model = mlp("tanh", widths=(2, 3, 2), seed=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = icgd.compile(
        model,
        optimizer,
        loss=functional.cross_entropy,
        example=(X[:2], Y[:2]),
        heads="fixed",
        exponents=(-8, 2),
    )
    assert icgd.verify(program, X, Y).passed
    return program, X, Y


def rejected(mutant, case):
    """The verdict of a changed program, None where it is rejected."""
    program, X, Y = case
    altered = mutant.of(program)
    assert altered._is_altered(), f"{mutant.name} is not noticed"
    try:
        check = icgd.verify(altered, X, Y)
    except AssumptionViolated:  # cannot even be run
        return None, altered
    return (check if check.passed else None), altered


def outputs(program, seed):
    """Everything a user gets, from other rows and other weights."""
    X, Y = data("class", n_rows=4, n_in=2, n_out=2, seed=seed)
    init = mlp("tanh", widths=(2, 3, 2), seed=10 + seed).state_dict()
    run = program.run(X, Y, init=init, epochs=2, executor="dense")
    state = {k: v for k, v in run.state.items() if k.startswith("state.")}
    return {**run.state_dict, **state, "losses": run.losses, "predictions": run.predict(X)}


def is_harmless(check, altered, program):
    """Nothing moves by more than the bound that the verdict was given with."""
    for seed in (1, 2):
        right, found = outputs(program, seed), outputs(altered, seed)
        limit = max(check.round_bound, check.prediction_bound) * 8
        if any(float((found[n] - value).abs().max()) > limit for n, value in right.items()):
            return False
    return True


def survivors(mutants, case):
    """Those that pass though they change what a user gets, and all that pass, by family."""
    passed, wrong = collections.Counter(), []
    for mutant in mutants:
        check, altered = rejected(mutant, case)
        if check is not None:
            passed[mutant.family] += 1
            if not is_harmless(check, altered, case[0]):
                wrong.append(mutant.name)
    return wrong, passed


@pytest.mark.parametrize("family", FAMILIES)
def test_a_few_changes_of_every_family(case, family):
    every = list(FAMILIES[family](case[0]))
    few = every[:: max(1, len(every) // 10)][:10]
    wrong, passed = survivors(few, case)
    assert not wrong
    assert passed[family] < len(few)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_all_changes(case, family):
    """More than six hundred of them, one to a tensor, flag, step or map."""
    wrong, passed = survivors(FAMILIES[family](case[0]), case)
    assert not wrong, wrong
    assert passed[family] < sum(1 for _ in FAMILIES[family](case[0])) / 2


def test_there_are_enough_of_them(case):
    every = list(itertools.chain.from_iterable(make(case[0]) for make in FAMILIES.values()))
    assert len(every) > 600
    assert len({mutant.name for mutant in every}) == len(every)
