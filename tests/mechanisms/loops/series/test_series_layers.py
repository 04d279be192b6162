"""The looped autoregression against gradient descent written out here, mode by mode and token by token."""

from __future__ import annotations

import pytest
import torch
from sequence_cases import F64, SeriesCase, descend, off

import icgd
from icgd.errors import AssumptionViolated, InvalidFile, InvalidParameter
from icgd.mechanisms.step_size import largest_curvature, warn_if_diverging
from icgd.transformer.blocks import pack_block
from icgd.verification.bounds.loop import loop_bound, slots_after

# d, q, N, widths of the representation
MAIN = (4, 3, 40, (12, 8))
CASES = [
    MAIN,
    (20, 3, 40, (20, 20, 20)),
    (4, 1, 40, (8,)),
    (4, 3, 40, ()),
    (3, 1, 12, ()),
    (1, 2, 3, ()),
    (1, 1, 1, ()),
    (2, 5, 5, (3,)),
]
MODES = ("spectral", "sym", "four", "printed")


def session_of(program, x):
    return program.codec.session(x, None, steps=1)


def entered(program, x):
    """Tokens after the entry layers."""
    session = session_of(program, x)
    block = next(iter(session.prompt.values()))
    return program.entry(pack_block(block, program.layout, session.n_columns, x))


# -- against exact gradient descent ---------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("mode", "steps", "bar"),
    [
        ("spectral", 1, 1e-13),
        ("spectral", 200, 1e-12),
        ("sym", 1, 1e-9),
        ("sym", 20, 1e-8),
        ("four", 20, 2e-10),
        ("printed", 1, 5e-7),
        ("printed", 20, 1e-5),
    ],
)
def test_predicts_as_gradient_descent_does(case, mode, steps, bar):
    for seed in range(2):
        its = SeriesCase(*case, seed=seed)
        f, y, asked = its.pairs()
        program = its.compiled(mode)
        prediction = program.run(its.x, None, steps=steps).prediction
        assert prediction.shape == (1, its.d)
        exact = descend(f, y, its.lr(), steps) @ asked
        error = off(prediction[0], exact)
        # One example may be much smaller than what is asked of it: lr is large then.
        alone = its.lr() * float(asked.norm() * f.norm()) if len(f) == 1 else 1.0
        assert error <= bar * max(1.0, alone)
        assert error <= loop_bound(program, f, y, asked, steps)


@pytest.mark.parametrize("seed", range(5))
def test_bars_over_seeds(seed):
    its = SeriesCase(*MAIN, seed=seed)
    f, y, asked = its.pairs()
    for mode, steps, bar in (("sym", 20, 1e-8), ("spectral", 200, 1e-12)):
        prediction = its.compiled(mode).run(its.x, None, steps=steps).prediction
        assert off(prediction[0], descend(f, y, its.lr(), steps) @ asked) <= bar


@pytest.mark.parametrize("case", CASES)
def test_weights_and_history_are_those_of_gradient_descent(case):
    its = SeriesCase(*case)
    f, y, _ = its.pairs()
    run = its.compiled().run(its.x, None, steps=7, record="weights")
    assert run.weights.shape == (its.d, f.shape[1])
    assert len(run.history) == 7
    for step, weights in enumerate(run.history, 1):
        assert off(weights, descend(f, y, its.lr(), step)) <= 1e-11
    assert torch.equal(run.history[-1], run.weights)


def test_finds_the_truth_where_there_is_one():
    # Cosines obey x_{t+1} = 2 cos(w) x_t - x_{t-1}.
    t = torch.arange(42, dtype=F64).unsqueeze(1)
    x = torch.cos(t * torch.tensor([1.2, 1.9], dtype=F64))
    program = icgd.compile(icgd.Autoregression(2, 2, 40), icgd.GD(1.4))
    run = program.run(x[:-1], None, steps=200)
    assert off(run.prediction[0], x[-1]) <= 1e-12
    w = torch.tensor([1.2, 1.9], dtype=F64)
    truth = torch.cat([-torch.eye(2, dtype=F64), torch.diag(2 * w.cos())], dim=1)
    assert off(run.weights, truth) <= 1e-12
    # The prediction is the next row: the series can go on with it.
    assert torch.cat([x[:-1], run.prediction]).shape == x.shape


# -- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_copies_are_exact(case):
    its = SeriesCase(*case)
    program = its.compiled()
    slots = slots_after(program, session_of(program, its.x), "filter")
    n = its.n_steps + 1
    for i in range(1, its.q):
        copies = slots[f"lag{i}"]
        assert torch.equal(copies[i:n], its.x[: n - i])
        assert not copies[:i].any()
        assert not copies[n:].any()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_what_the_loop_is_given(case, mode):
    its = SeriesCase(*case)
    f, y, asked = its.pairs()
    program = its.compiled(mode)
    slots = slots_after(program, session_of(program, its.x))
    train = slice(its.q - 1, its.n_steps)
    width = f.shape[1]
    assert off(slots["f"][train, :width], f) <= 1e-13
    assert off(slots["f"][its.n_steps, :width], asked) <= 1e-13
    assert off(slots["k"][train], f / len(f)) <= 1e-13
    assert torch.equal(slots["r"][train], -y)
    others = torch.ones(its.n_steps + 2, dtype=torch.bool)
    others[train] = False
    assert not slots["k"][others].any()
    assert not slots["r"][others].any()
    others[its.n_steps] = False
    assert not slots["f"][others].any()


@pytest.mark.parametrize("mode", MODES)
def test_tokens_without_a_window_stay_zero(mode):
    its = SeriesCase(*MAIN)
    program = its.compiled(mode)
    tokens = entered(program, its.x)
    for _ in range(5):
        tokens = program.step(tokens)
    state = program.layout.unpack(tokens)["r"]
    assert not state[: its.q - 1].any()
    assert not state[-1].any()
    assert state[its.n_steps].any()


@pytest.mark.parametrize("mode", MODES)
def test_only_the_last_token_answers(mode):
    its = SeriesCase(*MAIN)
    program = its.compiled(mode)
    tokens = program.readout(program.step(entered(program, its.x)))
    slots = program.layout.unpack(tokens)
    assert not slots["out"][:-1].any()
    assert torch.equal(slots["out"][-1], slots["r"][its.n_steps])


# -- one map --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", [(2, 2, 8, (5, 3)), (2, 3, 7, ()), (1, 1, 4, ())])
def test_executors_agree(mode, case):
    its = SeriesCase(*case)
    program = its.compiled(mode)
    plain, *others = (
        program.run(its.x, None, steps=4, executor=name).prediction
        for name in ("structured", "sparse", "dense")
    )
    # In the linear range a score is known to an ulp of C, whichever way it was summed.
    bar = {"spectral": 1e-12, "sym": 2e-10, "four": 1e-11, "printed": 2e-7}[mode]
    assert max(off(other, plain) for other in others) <= bar


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_its_members(mode):
    its = SeriesCase(*MAIN, batch=3)
    program = its.compiled(mode)
    run = program.run(its.x, None, steps=5)
    assert run.prediction.shape == (3, 1, its.d)
    assert run.weights.shape[0] == 3
    # A batch is summed in another order, and the linear range magnifies rounding.
    bar = {"spectral": 1e-13, "sym": 1e-9, "four": 1e-10, "printed": 5e-7}[mode]
    for i in range(3):
        single = program.run(its.x[i], None, steps=5)
        assert off(run.prediction[i], single.prediction) <= bar


@pytest.mark.parametrize("mode", ["spectral", "four"])
def test_save_and_load(tmp_path, mode):
    its = SeriesCase(*MAIN)
    program = its.compiled(mode)
    program.save_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path)
    runs = [p.run(its.x, None, steps=3).prediction for p in (program, loaded)]
    assert torch.equal(*runs)
    loaded.entry.sublayers["label"].heads["successor"].value.data.mul_(2.0)
    loaded.save_pretrained(tmp_path / "altered")
    with pytest.raises(InvalidFile):
        icgd.Program.from_pretrained(tmp_path / "altered")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("mode", "heads"), [("sym", 2), ("printed", 2), ("four", 4)])
def test_layers_and_heads(case, mode, heads):
    its = SeriesCase(*case)
    program = its.compiled(mode)
    n_layers = len(its.layers) + 2
    # With q = 1 there is nothing to copy.
    assert program.entry.n_layers == n_layers - (its.q == 1 and bool(its.layers))
    counted = {
        name: layer.counts(program.layout.width).heads for name, layer in program.entry.each()
    }
    assert counted.pop("copy", 0) == its.q - 1
    assert counted.pop("label") == 1
    assert not any(counted.values())
    assert (program.step.n_layers, program.readout.n_layers) == (1, 1)
    assert sum(c.heads for c in program.step.counts()) == heads
    assert sum(c.heads for c in program.readout.counts()) == 1


def test_single_precision():
    its = SeriesCase(*MAIN)
    f, y, asked = its.pairs()
    program = its.compiled("spectral", dtype=torch.float32)
    run = program.run(its.x.float(), None, steps=20)
    assert run.prediction.dtype == torch.float32
    exact = descend(f, y, its.lr(), 20) @ asked
    assert 1e-9 < off(run.prediction[0], exact) <= 2e-5
    slots = slots_after(program, session_of(program, its.x.float()), "filter")
    assert torch.equal(slots["lag2"][2:41], its.x.float()[:39])


# -- what is refused ------------------------------------------------------------------------------


def test_wrong_arguments():
    its = SeriesCase(*MAIN)
    program = its.compiled()
    for bad in (its.x[:-1], its.x[:, :-1], its.x[None, None], its.x[:, 0]):
        with pytest.raises(InvalidParameter, match=r"series.*\(41, 4\)"):
            program.run(bad, None, steps=1)
    with pytest.raises(InvalidParameter, match=r"`Y` must be None.*its own target"):
        program.run(its.x, its.x, steps=1)
    with pytest.raises(InvalidParameter, match=r"`query` must be None.*always predicted"):
        program.run(its.x, None, steps=1, query=its.x[-1:])
    with pytest.raises(InvalidParameter, match="steps"):
        program.run(its.x, None)
    with pytest.raises(InvalidParameter, match="init"):
        program.run(its.x, None, steps=1, init=torch.zeros(4, 8))
    hole = its.x.clone()
    hole[3, 1] = torch.nan
    with pytest.raises(InvalidParameter, match=r"\(3, 1\)"):
        program.run(hole, None, steps=1)


def test_wrong_problems():
    for slope in (0.0, -0.1, 1.5, float("nan")):
        with pytest.raises(InvalidParameter, match="slope"):
            icgd.Autoregression(2, 2, 9, slope=slope)
    with pytest.raises(InvalidParameter, match="n_steps"):
        icgd.Autoregression(2, 5, 4)
    with pytest.raises(InvalidParameter, match=r"representation\[0\]"):
        icgd.Autoregression(2, 3, 9, representation=[torch.eye(2)])
    with pytest.raises(InvalidParameter, match=r"optimizer.*Autoregression"):
        icgd.compile(icgd.Autoregression(2, 3, 9), icgd.SGD(0.1))
    with pytest.raises(InvalidParameter, match="mode"):
        icgd.compile(icgd.Autoregression(2, 3, 9), icgd.GD(0.1), mode="exact")


def test_a_series_of_numbers():
    program = icgd.compile(icgd.Autoregression(1, 2, 6), icgd.GD(0.5))
    x = torch.tensor([1.0, 0, -1, 0, 1, 0, -1])
    assert torch.equal(
        program.run(x, None, steps=5).prediction, program.run(x[:, None], None, steps=5).prediction
    )


@pytest.mark.parametrize("mode", ["spectral", "sym"])
def test_steps_that_are_too_large_are_named(mode):
    its = SeriesCase(*MAIN)
    f, y, asked = its.pairs()
    program = its.compiled(mode, factor=2.1)
    with pytest.warns(UserWarning, match=r"lr \* lambda_max = 2\.1 >= 2 for this series"):
        run = program.run(its.x, None, steps=20)
    # It diverges as gradient descent does.
    exact = descend(f, y, its.lr(2.1), 20) @ asked
    assert off(run.prediction[0], exact) <= 1e-7 * max(1.0, float(exact.abs().max()))
    its.compiled(mode, factor=1.9).run(its.x, None, steps=1)


@pytest.mark.parametrize("mode", ["spectral", "sym"])
def test_overflow_is_named(mode):
    its = SeriesCase(*MAIN)
    program = its.compiled(mode, factor=1000.0)
    with (
        pytest.warns(UserWarning, match="does not converge"),
        pytest.raises(AssumptionViolated, match=r"overflowed.*Lower lr|diverged: lower lr"),
    ):
        program.run(its.x, None, steps=200)


def test_an_exploding_series_is_named():
    program = icgd.compile(icgd.Autoregression(2, 2, 9), icgd.GD(1e-20))
    with pytest.raises(AssumptionViolated, match=r"gates are exact up to.*explodes"):
        program.run(4.0 ** torch.arange(20, dtype=F64).reshape(10, 2), None, steps=1)


def test_curvature():
    f = torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=F64)
    assert largest_curvature(f) == pytest.approx(3.0)
    assert largest_curvature(torch.stack([f, 2 * f])) == pytest.approx(12.0)
    warn_if_diverging(0.66, f, "it")
    for lr, lam in ((0.67, 0.0), (0.5, 1.01), (float("nan"), 0.0)):
        with pytest.warns(UserWarning, match="for it"):
            warn_if_diverging(lr, f, "it", lam=lam)
