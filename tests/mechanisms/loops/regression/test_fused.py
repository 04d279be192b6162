"""Entry, loop and read-out as one layer: the same numbers as the three parts, and as gradient descent."""

from __future__ import annotations

import pytest
import torch

import icgd
from icgd.errors import InvalidParameter
from icgd.mechanisms.loops.regression.fused import fuse
from icgd.transformer.blocks import pack_block
from icgd.transformer.nn.stack.stack import unwatched

F64 = torch.float64
MODES = ["spectral", "sym", "four", "printed"]
BARS = {"spectral": 1e-13, "sym": 5e-8, "four": 5e-10, "printed": 1e-5}
EXECUTORS = ["structured", "sparse", "dense"]


class Case:
    def __init__(self, d, n, k=1, seed=0, batch=(), queries=1):
        g = torch.Generator().manual_seed(seed)
        self.X = torch.randn(*batch, n, d, generator=g, dtype=F64)
        self.Y = self.X @ torch.randn(*batch, d, k, generator=g, dtype=F64) / d**0.5
        self.query = torch.randn(*batch, queries, d, generator=g, dtype=F64)
        radius = 1.01 * float(torch.cat([self.X, self.query], dim=-2).norm(dim=-1).max())
        self.problem = icgd.LinearRegression(d, n, k, x_radius=radius)
        self.lr = 1 / float(torch.linalg.matrix_norm(self.X.mT @ self.X / n, ord=2).max())

    def parts(self, mode):
        return icgd.compile(self.problem, icgd.GD(self.lr), mode=mode)

    def descent(self, steps):
        A = torch.zeros(*self.X.shape[:-2], self.X.shape[-1], self.Y.shape[-1], dtype=F64)
        for _ in range(steps):
            A = A - self.lr * self.X.mT @ (self.X @ A - self.Y) / self.X.shape[-2]
        return A

    def run(self, program, steps, **more):
        return program.run(self.X, self.Y, steps=steps, query=self.query, **more)


@pytest.mark.parametrize("steps", [1, 2, 20, 200])
@pytest.mark.parametrize("size", [(1, 1), (5, 20), (20, 40)])
@pytest.mark.parametrize("mode", MODES)
def test_one_layer_does_what_three_parts_do(mode, size, steps):
    case = Case(*size)
    parts = case.parts(mode)
    ours, theirs = case.run(fuse(parts), steps), case.run(parts, steps)
    assert torch.equal(ours.prediction, theirs.prediction)
    assert torch.equal(ours.weights, theirs.weights)
    exact = case.query @ case.descent(steps)
    assert float((ours.prediction - exact).abs().max()) <= BARS[mode]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("mode", MODES)
def test_executors_batches_outputs_and_queries(mode, executor):
    case = Case(4, 9, 2, batch=(3,), queries=2)
    run = case.run(fuse(case.parts(mode)), 20, executor=executor)
    exact = case.descent(20)
    assert run.prediction.shape == (3, 2, 2)
    assert float((run.prediction - case.query @ exact).abs().max()) <= BARS[mode]
    assert float((run.weights - exact.mT).abs().max()) <= 100 * BARS[mode]


@pytest.mark.parametrize(("mode", "heads"), [("sym", 4), ("printed", 4), ("four", 6)])
def test_it_is_one_layer_with_four_heads(mode, heads):
    program = fuse(Case(5, 20).parts(mode))
    assert program.entry is None
    assert program.readout is None
    assert program.step.n_layers == 1
    assert [c.kind for c in program.step.counts()] == ["attention", "mlp"]
    assert program.step.counts()[0].heads == heads


@pytest.mark.parametrize("evaluation", ["collapsed", "dense"])
@pytest.mark.parametrize("mode", MODES)
def test_passes_in_order(mode, evaluation):
    """The layer applied by hand: what every pass does, and that nothing happens after the last."""
    case, steps, n = Case(3, 5), 4, 5
    program = fuse(case.parts(mode))
    session = program.codec.session(case.X, case.Y, steps=steps, query=case.query)
    (block,) = session.prompt.values()
    tokens = pack_block(block, program.layout, session.n_columns, program.step.like)
    unpack = program.layout.unpack
    labels = unpack(tokens)["y"].clone()
    answers = []
    for i in range(steps + 6):
        tokens = program.step(tokens, evaluation, unwatched)
        slots = unpack(tokens)
        answers.append(slots["y"][-1].clone())
        assert torch.equal(slots["y"][:-1], labels[:-1])
        assert slots["count"].unique().tolist() == [i + 1 - steps]
        assert slots["wait"].unique().tolist() == [0.0 if i == steps - 1 else 1.0]
        assert slots["ask"].tolist() == [0.0] * (2 * n + 1) + [1.0 if i == steps else 0.0]
        assert slots["done"].unique().tolist() == [1.0]
        assert bool(slots["k"].any()) == (i < steps)
        assert not slots["r"][1::2].any()
        if i <= steps:
            exact = case.X @ case.descent(i) - case.Y
            assert float((slots["r"][0 : 2 * n : 2] - exact).abs().max()) <= BARS[mode]
            assert not answers[-1].any()
    exact = (case.query @ case.descent(steps))[0]
    assert float((answers[steps + 1] - exact).abs().max()) <= BARS[mode]
    for later in answers[steps + 2 :]:
        assert torch.equal(later, answers[steps + 1])


def test_weights_depend_neither_on_the_data_nor_on_the_number_of_steps():
    case = Case(3, 5)
    program = fuse(case.parts("sym"))
    before = [p.clone() for p in program.parameters()]
    for steps in (1, 7):
        exact = case.query @ case.descent(steps)
        assert float((case.run(program, steps).prediction - exact).abs().max()) <= 1e-8
    for now, was in zip(program.parameters(), before, strict=True):
        assert torch.equal(now, was)


def test_history_has_an_entry_per_application():
    case = Case(3, 5)
    run = case.run(fuse(case.parts("spectral")), 6, record="weights")
    assert len(run.history) == 7
    for i, w in enumerate(run.history):
        assert float((w - case.descent(i)[:, 0]).abs().max()) <= 1e-13


@pytest.mark.parametrize("mode", MODES)
def test_large_labels_do_not_leak_through_gates(mode):
    case = Case(3, 5)
    case.Y = 1e9 * case.Y
    run = case.run(fuse(case.parts(mode)), 5)
    exact = case.query @ case.descent(5)
    assert float((run.prediction - exact).abs().max()) <= 1e9 * BARS[mode]


@pytest.mark.parametrize("mode", MODES)
def test_save_and_load(tmp_path, mode):
    case = Case(4, 6)
    program = fuse(case.parts(mode))
    program.save_pretrained(tmp_path)
    again = icgd.Program.from_pretrained(tmp_path)
    for executor in EXECUTORS:
        ours, theirs = (case.run(p, 9, executor=executor) for p in (program, again))
        assert torch.equal(ours.prediction, theirs.prediction)


def test_float32():
    case = Case(4, 6)
    parts = icgd.compile(case.problem, icgd.GD(case.lr), dtype=torch.float32)
    data = [t.float() for t in (case.X, case.Y)]
    ours, theirs = (
        p.run(*data, steps=5, query=case.query.float()).prediction for p in (fuse(parts), parts)
    )
    assert torch.equal(ours, theirs)


def test_what_cannot_be_fused():
    lam = icgd.compile(icgd.LinearRegression(3, 5, lam=0.1), icgd.GD(0.1))
    with pytest.raises(InvalidParameter, match="lam"):
        fuse(lam)
    deep = icgd.compile(
        icgd.RepresentationRegression(3, 5, representation=[torch.eye(3)]), icgd.GD(0.1)
    )
    with pytest.raises(InvalidParameter, match="entry of one layer"):
        fuse(deep)
    linear = icgd.compile(icgd.LinearRegression(3, 5), icgd.GD(0.1), attention="linear")
    with pytest.raises(InvalidParameter, match="looped_regression"):
        fuse(linear)
    with pytest.raises(InvalidParameter, match="looped_regression"):
        fuse(fuse(icgd.compile(icgd.LinearRegression(3, 5), icgd.GD(0.1))))
