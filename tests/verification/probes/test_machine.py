"""Probes of a machine: every kind of step, both executors, every edge of every bucket."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.mechanisms.machine.table import data, mlp
from torch.nn import functional

import icgd
from icgd.verification.probes.machine import probe_machine


@pytest.fixture(scope="module", params=["fixed", "float"])
def program(request):
    X, Y = data("class", n_rows=2, n_in=2, n_out=2)
    model = mlp("relu", widths=(2, 2, 2), seed=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return icgd.compile(
        model,
        optimizer,
        loss=functional.cross_entropy,
        example=(X[:1], Y[:1]),
        heads=request.param,
        exponents=(-8, 2),
    )


def test_every_kind_passes_on_both_executors(program):
    probes = probe_machine(program)
    kinds = {kind.name for kind in program.codec.schedules.kinds}
    for executor in ("structured", "dense"):
        assert {p.kind for p in probes if p.executor == executor} == kinds
    assert all(p.passed and p.count >= 4 for p in probes)


def test_other_seeds_pass_as_well(program):
    assert all(p.passed for p in probe_machine(program, seed=7))


def test_an_edge_of_one_bucket_is_noticed(program):
    """A thermometer's unit that rises one float too early, in a bucket no run needs."""
    altered = copy.deepcopy(program)
    name = next(n for n, _ in altered.named_parameters() if n.endswith("shut.bias"))
    bias = dict(altered.named_parameters())[name]
    bias.data[0] += 1.0
    failed = {p.kind for p in probe_machine(altered) if not p.passed}
    assert failed == {name.removeprefix("step.pre.parts.").partition(":")[0]}


def test_a_head_that_reads_wrong_is_noticed(program):
    altered = copy.deepcopy(program)
    altered.step.attention.tables["read"].values.data[3] *= 1.001
    assert any(not p.passed for p in probe_machine(altered))
