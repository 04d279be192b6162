"""Literal heads: exactly one bucket answers, thermometers are exact, and the sum is the function."""

from __future__ import annotations

import math

import pytest
import torch
from exact_functions import neighbours

from icgd.errors import AssumptionViolated
from icgd.transformer.gadgets.machine_heads.head_table import Bucket
from icgd.transformer.gadgets.machine_heads.heads import FUNCTIONS, Heads

F64, F32 = torch.float64, torch.float32
DTYPES = pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
SMALL = {"exponents": (-12, 8), "powers": (-9, 7), "turns": 4}
CASES = [*FUNCTIONS, "fixed", "float"]


def table_of(case, dtype, **options):
    if case in FUNCTIONS:
        heads, name = Heads("float", dtype=dtype, **options), case
    else:
        heads, name = Heads(case, dtype=dtype, **options), "read"
    return heads, name, heads.table(name)


def edges_of(table):
    edges = [edge for b in table.buckets for edge in (b.sign * b.low, b.sign * b.high)]
    return torch.tensor([e for e in edges if math.isfinite(e)], dtype=table.dtype)


def probes(table):
    """Everything that could go wrong: edges and their neighbours, zeros, subnormals, huge numbers."""
    info = torch.finfo(table.dtype)
    tiny = torch.tensor([0.0, -0.0, info.tiny / 8, info.tiny, 1e-12, 1.0, 2.0], dtype=table.dtype)
    spread = torch.linspace(-4, 4, 333, dtype=table.dtype)
    q = torch.cat([neighbours(edges_of(table)), tiny, spread])
    return torch.cat([q, -q])


@DTYPES
@pytest.mark.parametrize("case", CASES)
def test_exactly_one_bucket_is_open_in_the_domain_and_at_most_one_elsewhere(case, dtype):
    heads, name, table = table_of(case, dtype)
    q = probes(table)
    n_open = sum(bucket.holds(q).int() for bucket in table.buckets)
    assert bool((n_open <= 1).all())
    domain = heads.domain(name)
    inside = domain.contains(q)
    size = q.abs() if domain.of_size else q
    answered = size > domain.zero_below if domain.zero_below else torch.ones_like(inside)
    assert bool((n_open == 1)[inside & answered].all())


@DTYPES
@pytest.mark.parametrize("case", CASES)
def test_thermometers_are_exactly_zero_where_open_and_at_least_one_where_shut(case, dtype):
    _, _, table = table_of(case, dtype)
    q = probes(table)
    for bucket in table.buckets[:: max(1, len(table.buckets) // 60)]:
        off, is_open = bucket.off(q), bucket.holds(q)
        assert bool((off[is_open] == 0).all())
        assert bool((off[~is_open] >= 1).all())
        assert len(bucket.units(dtype)) <= 2


@DTYPES
@pytest.mark.parametrize("case", CASES)
def test_a_shut_bucket_gives_exactly_nothing_and_an_open_ones_sink_weighs_nothing(case, dtype):
    heads, name, table = table_of(case, dtype)
    q = probes(table)
    q = q[heads.domain(name).contains(q)]
    for bucket in table.buckets[:: max(1, len(table.buckets) // 30)]:
        part = table.contribution(bucket, q)
        assert bool((part[~bucket.holds(q)] == 0).all())
        if bucket.units(dtype):
            local = (bucket.scale * q + bucket.shift)[bucket.holds(q)].unsqueeze(-1)
            scores = local * table.rates + table.offsets
            sink = torch.full_like(scores[:, :1], -table.sink[0])
            assert float(torch.softmax(torch.cat([scores, sink], -1), -1)[:, -1].sum()) == 0.0


@DTYPES
@pytest.mark.parametrize("case", CASES)
def test_the_literal_heads_compute_what_the_fast_ones_do(case, dtype):
    heads, name, table = table_of(case, dtype, **SMALL)
    q = probes(table)
    q = q[heads.domain(name).contains(q)]
    literal = table.literal(q)
    if name == "read":
        fast, bound = heads.read(q), heads.read_error(q.abs())
    else:
        fast = heads.function(name, q)
        bound = heads.function_error(name, q, fast)
    n_open = sum(bucket.holds(q).int() for bucket in table.buckets)
    answered = n_open == 1
    assert bool((literal[~answered] == fast[~answered]).all())
    both = bound + table.literal_error(q)
    assert bool(((literal - fast).abs() <= both)[answered].all())
    loosest = float(table.literal_error(q)[answered].max())
    assert loosest < 1e5 * torch.finfo(dtype).eps * float(fast.abs().max() + 1)


def test_an_edge_around_which_floats_are_uneven_is_refused():
    for edge in (0.0, -4.0):
        with pytest.raises(AssumptionViolated, match="Move the edge"):
            Bucket(edge, 8.0).units(F64)


def test_tanh_has_its_slope_in_the_middle_token():
    table = Heads("fixed").table("tanh")
    q = torch.linspace(-20, 20, 1001, dtype=F64)
    weights = torch.softmax(q.unsqueeze(-1) * table.rates + table.offsets, dim=-1)
    slope = 1 / torch.cosh(q) ** 2
    assert bool(((2 * weights[:, 1] - slope).abs() <= 1e-13 * slope).all())
