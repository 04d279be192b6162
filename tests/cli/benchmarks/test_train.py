"""icgd bench train at a size of no account: the same losses, the FLOPs of the closed form, the file."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("transformers")

from icgd.cli.benchmarks import train
from icgd.cli.benchmarks.train import TrainCase, bench_train

N_LAYER, WIDTH = 2, 8


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "bench.json"
    (row,) = bench_train(path, (TrainCase(N_LAYER, 2, WIDTH, 2, 0.0),))
    return row, json.loads(path.read_text())


def products(n_tokens, n_asked):
    """FLOPs of a forward and a backward pass, `n_asked` tokens in the feed-forward part of the last block.

    A matrix product costs 2 abc, its gradients twice that, but for the read-in: it has no gradient to
    pass on. Attention forward has two products over all pairs of tokens, backward five.
    """
    d, whole, asked = WIDTH, train.BATCH * n_tokens, train.BATCH * n_asked
    read_in, read_out = 2 * 2 * whole * train.D * d, 3 * 2 * n_asked * train.BATCH * d
    qkv = 3 * 2 * whole * 3 * d * d * N_LAYER
    rest = 3 * 2 * 9 * d * d * (whole * (N_LAYER - 1) + asked)
    pairs = (2 + 5) * 2 * train.BATCH * n_tokens**2 * d * N_LAYER
    return read_in + read_out + qkv + rest + pairs


def test_flops_are_those_of_the_closed_form(measured):
    row, _ = measured
    n = train.N_POINTS
    assert row.theirs_flops == products(2 * n, 2 * n)
    assert row.ours_flops == products(2 * n - 1, n)


def test_both_sides_have_the_same_loss_curve(measured):
    row, _ = measured
    assert row.n_steps == 1 + 2 * train.REPEATS
    assert row.loss_difference < 1e-5


def test_the_file_holds_the_row(measured):
    row, written = measured
    assert written["rows"][0]["ratio"] == row.ratio > 0
    assert written["rows"][0]["met"] is True
    assert {"icgd", "torch"} <= set(written["versions"])
