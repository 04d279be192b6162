"""The decoder against gradient descent on every prefix, one prefix after the other, in plain torch."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import icgd
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.loops.decoder.codec import DecoderCodec
from icgd.mechanisms.loops.decoder.compile import with_room
from icgd.mechanisms.loops.decoder.layers import DecoderBuilder
from icgd.transformer.blocks import pack_block
from icgd.transformer.gadgets.heads.bilinear import BilinearOptions

F64 = torch.float64
MODES = ("spectral", "sym", "four", "printed")
WEIGHTS = {"spectral": 1e-12, "sym": 1e-9, "four": 1e-10, "printed": 1e-6}
"""Largest error of w^i, relative to max(1, |w^i|)."""
OUTPUTS = {"spectral": 1e-12, "sym": 2e-8, "four": 2e-9, "printed": 2e-5}
SIZES = ((1, 1), (1, 2), (1, 9), (5, 20), (20, 40), (10, 4))


def data(d, n, seed=0, outputs=None):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=g, dtype=F64)
    shape = (d,) if outputs is None else (d, outputs)
    y = X @ torch.randn(*shape, generator=g, dtype=F64)
    y = y + 0.1 * torch.randn(*y.shape, generator=g, dtype=F64)
    return X, y, 1 / float(X.square().sum(dim=1).max())


def by_prefix(X, y, lr, steps):
    """w^i for i = 1 .. n, each by gradient descent of its own."""
    rows = []
    for i in range(len(X)):
        w = torch.zeros(X.shape[1], dtype=F64)
        for _ in range(steps if i else 0):
            w = w - lr * X[:i].T @ (X[:i] @ w - y[:i]) / i
        rows.append(w)
    return torch.stack(rows)


def decoder(d, n, lr, outputs=1, **options):
    problem = icgd.LinearRegression(n_features=d, n_examples=n, n_outputs=outputs)
    return icgd.compile(problem, icgd.GD(lr), causal=True, **options)


def relative(made, exact):
    return float(((made - exact).norm(dim=-1) / exact.norm(dim=-1).clamp(min=1)).max())


# -- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("d", "n"), SIZES)
def test_weights_and_predictions_of_every_prefix(d, n, mode):
    for seed in range(2):
        X, y, lr = data(d, n, seed)
        program = decoder(d, n, lr, mode=mode)
        for steps in (1, 20):
            run, exact = program.run(X, y, steps=steps), by_prefix(X, y, lr, steps)
            assert run.weights.shape == (n, d)
            # With one feature 1/|x|^2 can be any number: so can the step.
            assert relative(run.weights, exact) <= WEIGHTS[mode] * max(1.0, lr)
            assert run.prediction.shape == (n,)
            error = float((run.prediction - (exact * X).sum(dim=1)).abs().max())
            assert error <= OUTPUTS[mode] * max(1.0, lr)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_two_hundred_steps(mode):
    for seed in range(5):
        X, y, lr = data(20, 40, seed)
        run, exact = decoder(20, 40, lr, mode=mode).run(X, y, steps=200), by_prefix(X, y, lr, 200)
        assert relative(run.weights, exact) <= 5 * WEIGHTS[mode]
        assert float((run.prediction - (exact * X).sum(dim=1)).abs().max()) <= OUTPUTS[mode]


def test_errors_are_those_of_the_mode():
    X, y, lr = data(5, 20)
    exact = by_prefix(X, y, lr, 20)
    errors = [
        relative(decoder(5, 20, lr, mode=mode).run(X, y, steps=20).weights, exact)
        for mode in ("spectral", "four", "sym", "printed")
    ]
    assert errors == sorted(errors)
    assert errors[3] > 50 * errors[2] > 50 * errors[0]


def test_a_long_run_solves_the_prefixes_that_are_determined():
    X, y, lr = data(2, 12)
    run = decoder(2, 12, lr).run(X, y, steps=1500)
    for i in range(4, 12):
        best = torch.linalg.lstsq(X[:i], y[:i].unsqueeze(-1)).solution[:, 0]
        assert float((run.weights[i] - best).norm()) <= 1e-6


def test_auto_step_size_and_history():
    X, y, _ = data(3, 7)
    program = icgd.compile(icgd.LinearRegression(3, 7), icgd.GD(), causal=True)
    lr = 1 / icgd.LinearRegression(3, 7).radius ** 2
    run = program.run(X, y, steps=4, record="weights")
    assert len(run.history) == 4
    for k, w in enumerate(run.history, 1):
        assert relative(w, by_prefix(X, y, lr, k)) <= 1e-14


# -- causality and exact zeros --------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("mode", MODES)
def test_later_tokens_change_nothing_before_them_bitwise(mode, executor):
    X, y, lr = data(4, 9)
    program = decoder(4, 9, lr / 4, mode=mode)
    before = program.run(X, y, steps=5, executor=executor)
    for cut in (1, 4, 8):
        # x_cut stays, its label and everything after it go.
        other, labels = X.clone(), y.clone()
        other[cut:], labels[cut - 1 :] = -0.5 * other[cut:].flip(0), labels[cut - 1 :] + 3.0
        after = program.run(other, labels, steps=5, executor=executor)
        assert torch.equal(after.weights[:cut], before.weights[:cut])
        assert torch.equal(after.prediction[:cut], before.prediction[:cut])
        assert not torch.equal(after.weights[cut:], before.weights[cut:])


def test_the_causality_test_can_fail():
    """Its own labels do reach a token's successors: so the comparison sees what moves."""
    X, y, lr = data(4, 9)
    program = decoder(4, 9, lr)
    before, moved = program.run(X, y, steps=2), y.clone()
    moved[3] += 1e-9
    after = program.run(X, moved, steps=2)
    assert torch.equal(after.weights[:4], before.weights[:4])
    assert all(not torch.equal(after.weights[i], before.weights[i]) for i in range(4, 9))


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("mode", ["sym", "spectral"])
def test_what_a_token_cannot_see_does_not_complain_for_it(mode, executor):
    """The range watch looks at visible pairs alone: <w^2, x_6> is out of range, and nobody asks for it."""
    X = torch.tensor([[0.5], [1.0], [1.0], [1.0], [1.0], [4.0]], dtype=F64)
    y = torch.tensor([7.0, 0.0, 0.0, 0.0, 0.0, 0.0], dtype=F64)
    size = 1.0 if mode == "sym" else 16.0
    program = decoder(1, 6, 1.0, mode=mode)
    run = program.run(X, size * y, steps=40, executor=executor)
    assert abs(float(run.weights[1, 0])) * 4 > program.codec.options.reach
    assert relative(run.weights, by_prefix(X, size * y, 1.0, 40)) <= 1e-8


@pytest.mark.parametrize("mode", MODES)
def test_labels_and_the_first_tokens_hold_exactly_nothing(mode):
    X, y, lr = data(3, 6)
    program = decoder(3, 6, lr, mode=mode)
    block, n, _ = program.codec.tokens(X, y.unsqueeze(-1))
    tokens = program.entry(pack_block(block, program.layout, n, program.step.like))
    copied = program.layout.unpack(tokens)["xc"]
    assert torch.equal(copied[2::2], X)
    assert bool((copied[1::2] == 0).all())
    assert bool((copied[0] == 0).all())
    for _ in range(5):
        tokens = program.step(tokens)
    tokens = program.readout(tokens)
    slots = program.layout.unpack(tokens)
    for name in ("w1", "o1"):
        assert bool((slots[name][2::2] == 0).all())
        assert bool((slots[name][:2] == 0).all())
    if mode == "spectral":
        assert bool((slots["g1"] == 0).all())


def test_the_mean_is_inside_the_softmax():
    """Positions are numbers of the prompt, not weights: without log(i-1) the step is that of the sum."""
    X, y, lr = data(3, 6)
    program = decoder(3, 6, lr / 6, mode="sym")
    block, n, _ = program.codec.tokens(X, y.unsqueeze(-1))
    tokens = program.entry(pack_block(block, program.layout, n, program.step.like))
    tokens[:, program.layout.slice("log_count")] = 0.0
    w = program.layout.unpack(program.step(tokens))["w1"][1::2]
    sums = torch.stack([lr / 6 * X[:i].T @ y[:i] for i in range(6)])
    assert relative(w, sums) <= 1e-8
    assert relative(program.run(X, y, steps=1).weights, sums) > 1e-2


# -- shapes, executors, files ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_batches_and_several_outputs(mode):
    parts = [data(3, 7, seed, outputs=2) for seed in range(3)]
    X, y = (torch.stack([part[j] for part in parts]) for j in (0, 1))
    lr = min(part[2] for part in parts)
    run = decoder(3, 7, lr, outputs=2, mode=mode).run(X, y, steps=10)
    assert run.weights.shape == (3, 7, 2, 3)
    assert run.prediction.shape == (3, 7, 2)
    for b in range(3):
        for a in range(2):
            exact = by_prefix(X[b], y[b, :, a], lr, 10)
            assert relative(run.weights[b, :, a], exact) <= WEIGHTS[mode]
            error = run.prediction[b, :, a] - (exact * X[b]).sum(dim=1)
            assert float(error.abs().max()) <= OUTPUTS[mode]
    one = decoder(3, 7, lr, mode=mode).run(X, y[..., 0], steps=10)
    assert one.weights.shape == (3, 7, 3)
    assert one.prediction.shape == (3, 7)


@pytest.mark.parametrize("mode", MODES)
def test_executors_agree(mode):
    """To 1e-12 in spectral mode; others amplify the order of a sum to what they promise and no more."""
    X, y, lr = data(4, 10)
    program = decoder(4, 10, lr, mode=mode)
    runs = [program.run(X, y, steps=12, executor=e) for e in ("structured", "sparse", "dense")]
    assert torch.equal(runs[0].weights, runs[1].weights)
    assert relative(runs[2].weights, runs[0].weights) <= WEIGHTS[mode]
    assert float((runs[2].prediction - runs[0].prediction).abs().max()) <= OUTPUTS[mode]


@pytest.mark.parametrize("mode", ["spectral", "four"])
def test_saved_programs_run_the_same(mode, tmp_path):
    X, y, lr = data(3, 5, outputs=2)
    program = decoder(3, 5, lr, outputs=2, mode=mode)
    program.save_pretrained(tmp_path)
    runs = [p.run(X, y, steps=3) for p in (program, icgd.Program.from_pretrained(tmp_path))]
    assert torch.equal(runs[0].weights, runs[1].weights)
    assert torch.equal(runs[0].prediction, runs[1].prediction)


def test_float32_is_measured():
    X, y, lr = data(5, 20)
    run = decoder(5, 20, lr, dtype=torch.float32).run(X, y, steps=20)
    assert 1e-9 < relative(run.weights.double(), by_prefix(X, y, lr, 20)) <= 1e-5


# -- counts ---------------------------------------------------------------------------------------


def counts(mode, outputs=1):
    program = decoder(5, 20, 0.01, outputs=outputs, mode=mode)
    return [
        (stack.n_layers, [c.heads for c in stack.counts() if c.kind == "attention"])
        for stack in (program.entry, program.step, program.readout)
    ]


def test_layers_and_heads_against_the_theorem():
    """Claimed: 1 layer of 2 heads, 1 of 2, 2 of 2. Here one head copies and one layer answers."""
    for mode in ("sym", "printed"):
        assert counts(mode) == [(1, [1]), (1, [2]), (1, [2])]
    assert counts("four") == [(1, [1]), (1, [4]), (1, [4])]
    # A sum, then a head that divides by i - 1: one layer more than claimed.
    assert counts("spectral") == [(1, [1]), (2, [1, 1]), (1, [1])]
    assert counts("sym", outputs=3) == [(1, [1]), (1, [6]), (1, [6])]


def test_no_feed_forward_layer_is_needed_in_the_linearised_loop():
    program = decoder(5, 20, 0.01, mode="sym")
    assert [c.kind for c in program.step.counts()] == ["attention"]


# -- complaints -----------------------------------------------------------------------------------


def test_a_query_is_refused():
    X, y, lr = data(3, 5)
    with pytest.raises(
        InvalidParameter, match="`query` must be left out: a decoder answers every x_i"
    ):
        decoder(3, 5, lr).run(X, y, steps=1, query=X[:1])


def test_ranges_are_named():
    X, y, lr = data(3, 5)
    program = decoder(3, 5, lr)
    with pytest.raises(AssumptionViolated, match=r"\|x\| reaches .*x_radius="):
        program.run(10 * X, y, steps=1)
    with pytest.raises(AssumptionViolated, match=r"\|y\| reaches .* Divide y by"):
        program.run(X, 1e4 * y, steps=1)


def test_dividing_y_is_a_remedy():
    X, y, lr = data(3, 5)
    program = decoder(3, 5, lr, mode="sym")
    run, large = program.run(X, y, steps=5), by_prefix(X, 1e6 * y, lr, 5)
    assert relative(1e6 * run.weights, large) <= 1e-8


def test_a_step_size_that_diverges_is_warned_about():
    """The first example alone is steeper than all of them together."""
    X, y, _ = data(3, 12)
    alone = float(X[0].square().sum())
    together = float(torch.linalg.matrix_norm(X[:-1], 2)) ** 2 / 11
    lr = 2.1 / max(float(torch.linalg.matrix_norm(X[:i], 2)) ** 2 / i for i in range(1, 12))
    assert lr * together < 2 or alone < together
    with pytest.warns(UserWarning, match=r"lr \* lambda_max = 2\.1 >= 2"):
        run = decoder(3, 12, lr).run(X, y, steps=3)
    assert relative(run.weights, by_prefix(X, y, lr, 3)) <= 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder(3, 12, 0.9 * lr).run(X, y, steps=3)


def test_divergence_ends_in_an_error_not_in_numbers():
    X, y, _ = data(3, 12)
    program = decoder(3, 12, 5.0)
    with pytest.warns(UserWarning, match="does not converge"), pytest.raises(AssumptionViolated):
        program.run(X, y, steps=200)


def test_other_mistakes():
    with pytest.raises(InvalidParameter, match="`lam` must be 0"):
        icgd.compile(icgd.LinearRegression(3, 5, lam=0.1), icgd.GD(0.1), causal=True)
    with pytest.raises(InvalidParameter, match="`optimizer`"):
        icgd.compile(icgd.LinearRegression(3, 5), icgd.GD(0.1, box=1.0), causal=True)
    with pytest.raises(InvalidParameter, match="`optimizer`"):
        icgd.compile(icgd.LinearRegression(3, 5), icgd.Newton(), causal=True)
    X, y, lr = data(3, 5)
    with pytest.raises(InvalidParameter, match="`X`"):
        decoder(3, 6, lr).run(X, y, steps=1)
    with pytest.raises(InvalidParameter, match="`steps`"):
        decoder(3, 5, lr).run(X, y)


def test_the_sink_keeps_below_a_power_of_two():
    for n in (1, 2, 40, 500):
        made = with_room(BilinearOptions("sym"), n)
        assert 16 < made.sink + math.log(max(1, n - 1)) < 32
    assert with_room(BilinearOptions("sym", C=20.0), 40).sink == 20.0


def test_the_parts_are_the_documented_ones():
    program = decoder(2, 5, 0.1)
    assert isinstance(program.codec, DecoderCodec)
    builder = DecoderBuilder(program.codec.problem, program.codec.options)
    assert "log_others" in builder.layout
    assert "log_count" not in builder.layout
