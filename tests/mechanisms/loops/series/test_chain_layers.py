"""Chains of thought against gradient descent written out here: the filter, the loop, and the answer."""

from __future__ import annotations

import pytest
import torch
from sequence_cases import F64, ChainCase, descend, leaky, off

import icgd
from icgd.errors import AssumptionViolated, InvalidFile, InvalidParameter
from icgd.transformer.blocks import pack_block
from icgd.verification.bounds.loop import loop_bound, slots_after

MAIN = (5, 6, 20)
# d, L, N, and the phases to continue from
CASES = [
    (*MAIN, (0, 2, 5)),
    (20, 6, 40, (0, 2, 5)),
    (1, 1, 3, (0,)),
    (3, 2, 1, (0, 1)),
    (6, 3, 4, (1,)),
]
MODES = ("spectral", "sym", "four", "printed")
phases = pytest.mark.parametrize("phase", [0, 2, 5])


def session_of(program, its, phase):
    return program.codec.session(its.chains, None, steps=1, query=its.start(phase))


def entered(program, its, phase):
    """Tokens after the entry layers."""
    session = session_of(program, its, phase)
    block = next(iter(session.prompt.values()))
    return program.entry(pack_block(block, program.layout, session.n_columns, its.chains))


# -- against exact gradient descent ---------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("mode", "steps", "bar"),
    [
        ("spectral", 1, 1e-12),
        ("spectral", 20, 1e-12),
        ("sym", 1, 5e-9),
        ("sym", 50, 2e-8),
        ("four", 50, 5e-10),
        ("printed", 1, 5e-6),
        ("printed", 50, 1e-5),
    ],
)
def test_continues_as_gradient_descent_does(case, mode, steps, bar):
    *size, continued = case
    for phase in continued:
        its = ChainCase(*size)
        program = its.compiled(phase, mode)
        prediction = program.run(its.chains, None, steps=steps, query=its.start(phase)).prediction
        assert prediction.shape == (1, its.d)
        error = off(prediction[0], its.exact(phase, its.lr(phase), steps))
        h, y = its.pairs(phase)
        # Few chains may be much smaller than what is asked of them: lr is large then.
        alone = its.lr(phase) * its.radius**2 if its.n_chains < its.d else 1.0
        assert error <= bar * max(1.0, alone)
        assert error <= loop_bound(program, h, y, its.test[phase], steps)


@pytest.mark.parametrize("seed", range(5))
@phases
def test_bars_over_seeds(seed, phase):
    its = ChainCase(*MAIN, seed=seed)
    for mode, steps, bar in (("sym", 50, 2e-8), ("spectral", 50, 1e-12)):
        run = its.compiled(phase, mode).run(its.chains, None, steps=steps, query=its.start(phase))
        assert off(run.prediction[0], its.exact(phase, its.lr(phase), steps)) <= bar


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "steps", "bar"), [("spectral", 200, 1e-12), ("sym", 2000, 1e-7)])
@phases
def test_long_runs(mode, steps, bar, phase):
    its = ChainCase(20, 6, 40)
    run = its.compiled(phase, mode).run(its.chains, None, steps=steps, query=its.start(phase))
    assert off(run.prediction[0], its.exact(phase, its.lr(phase), steps)) <= bar


@pytest.mark.parametrize("mode", ["spectral", "sym"])
def test_finds_the_truth_where_it_is_easy(mode):
    # 20 inputs in 5 dimensions: condition number about 4.
    its = ChainCase(*MAIN)
    h, _ = its.pairs(0)
    seen = torch.linalg.eigvalsh(h.T @ h)
    assert seen[-1] < 8 * seen[0]
    run = its.compiled(0, mode).run(its.chains, None, steps=50, query=its.start(0))
    assert off(run.prediction[0], its.test[1]) <= 1e-5


@phases
def test_weights_and_history_are_those_of_gradient_descent(phase):
    its = ChainCase(*MAIN)
    h, y = its.pairs(phase)
    run = its.compiled(phase).run(
        its.chains, None, steps=6, query=its.start(phase), record="weights"
    )
    assert run.weights.shape == (its.d, its.d)
    for step, weights in enumerate(run.history, 1):
        assert off(weights, descend(h, y, its.lr(phase), step)) <= 1e-9
    assert len(run.history) == 6


@pytest.mark.parametrize("slope", [0.01, 0.5, 1.0])
def test_slopes(slope):
    its = ChainCase(*MAIN, slope=slope)
    run = its.compiled(1).run(its.chains, None, steps=30, query=its.start(1))
    scale = max(1.0, float(its.pairs(1)[1].abs().max()))
    assert off(run.prediction[0], its.exact(1, its.lr(1), 30)) <= 1e-12 * scale


def test_one_program_for_all_phases():
    its = ChainCase(*MAIN)
    lr = min(its.lr(phase) for phase in range(6))
    problem = icgd.MLPChain(*MAIN, x_radius=its.radius)
    program = icgd.compile(problem, icgd.GD(lr))
    for phase in range(6):
        run = program.run(its.chains, None, steps=20, query=its.start(phase))
        assert off(run.prediction[0], its.exact(phase, lr, 20)) <= 1e-12
        # The prediction is the next row: the chain can go on with it.
        assert torch.cat([its.start(phase), run.prediction]).shape == (phase + 2, its.d)


# -- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ["spectral", "sym"])
def test_filter(case, mode):
    *size, continued = case
    for phase in continued:
        its = ChainCase(*size)
        program = its.compiled(phase, mode)
        slots = slots_after(program, session_of(program, its, phase))
        h, y = its.pairs(phase)
        n = its.n_chains * (its.n_layers + 1) + phase + 2
        train = [i * (its.n_layers + 1) + phase for i in range(its.n_chains)]
        assert torch.equal(slots["h"][train], h)
        assert torch.equal(slots["h"][n - 2], its.test[phase])
        assert off(slots["k"][train], h / its.n_chains) <= 1e-15 * float(h.abs().max())
        assert off(slots["r"][train], -y) <= 1e-12
        for name, kept in (("h", [*train, n - 2]), ("k", train), ("r", train)):
            others = [t for t in range(n) if t not in kept]
            assert slots[name].shape[0] == n
            assert not slots[name][others].any()
        # The one-hot codes arrive exactly, and mismatch is exactly 0 or 1.
        assert slots["asked"].unique().tolist() == [0.0, 1.0]
        assert set(slots["mismatch"].unique().tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("mode", MODES)
@phases
def test_filtered_tokens_stay_zero_and_one_token_answers(mode, phase):
    its = ChainCase(*MAIN)
    program = its.compiled(phase, mode)
    tokens = entered(program, its, phase)
    for _ in range(4):
        tokens = program.step(tokens)
    slots = program.layout.unpack(program.readout(tokens))
    n = len(tokens)
    kept = [*(i * 7 + phase for i in range(its.n_chains)), n - 2]
    assert slots["r"][kept].any()
    assert not slots["r"][[t for t in range(n) if t not in kept]].any()
    assert not slots["out"][:-1].any()
    assert off(slots["out"][-1], leaky(slots["r"][n - 2])) <= 1e-15 * float(slots["r"].abs().max())


# -- one map --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(2, 2, 3), (1, 1, 2)])
def test_executors_agree(mode, size):
    its = ChainCase(*size)
    phase = size[1] - 1
    program = its.compiled(phase, mode)
    plain, *others = (
        program.run(its.chains, None, steps=3, query=its.start(phase), executor=name).prediction
        for name in ("structured", "sparse", "dense")
    )
    # In the linear range a score is known to an ulp of C, whichever way it was summed.
    bar = {"spectral": 1e-12, "sym": 2e-9, "four": 1e-10, "printed": 2e-6}[mode]
    assert max(off(other, plain) for other in others) <= bar


def test_a_batch_is_its_members():
    its = ChainCase(*MAIN, batch=3)
    program = its.compiled(2)
    run = program.run(its.chains, None, steps=5, query=its.start(2))
    assert run.prediction.shape == (3, 1, 5)
    assert run.weights.shape == (3, 5, 5)
    for i in range(3):
        single = program.run(its.chains[i], None, steps=5, query=its.start(2)[i])
        assert off(run.prediction[i], single.prediction) <= 1e-13


def test_several_starts_share_the_chains():
    its = ChainCase(*MAIN)
    program = its.compiled(1)
    starts = torch.stack([its.start(1), its.chains[0, :2], 0.5 * its.start(1)])
    run = program.run(its.chains, None, steps=5, query=starts)
    assert run.prediction.shape == (3, 1, 5)
    for i, start in enumerate(starts):
        single = program.run(its.chains, None, steps=5, query=start)
        assert off(run.prediction[i], single.prediction) <= 1e-13


def test_save_and_load(tmp_path):
    its = ChainCase(*MAIN)
    program = its.compiled(2)
    program.save_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path)
    runs = [p.run(its.chains, None, steps=3, query=its.start(2)) for p in (program, loaded)]
    assert torch.equal(runs[0].prediction, runs[1].prediction)
    loaded.entry.sublayers["look"].heads["asked"].value.data.mul_(2.0)
    loaded.save_pretrained(tmp_path / "altered")
    with pytest.raises(InvalidFile):
        icgd.Program.from_pretrained(tmp_path / "altered")


@pytest.mark.parametrize(("mode", "heads"), [("sym", 2), ("printed", 2), ("four", 4)])
def test_layers_and_heads(mode, heads):
    program = ChainCase(*MAIN).compiled(0, mode)
    # The paper takes seven layers of two heads.
    assert program.entry.n_layers == 2
    counted = [layer.counts(program.layout.width).heads for _, layer in program.entry.each()]
    assert counted == [2, 0, 0]
    assert (program.step.n_layers, program.readout.n_layers) == (1, 1)
    assert sum(c.heads for c in program.step.counts()) == heads
    assert sum(c.heads for c in program.readout.counts()) == 1


def test_single_precision():
    its = ChainCase(*MAIN)
    program = its.compiled(2, dtype=torch.float32)
    run = program.run(its.chains.float(), None, steps=20, query=its.start(2).float())
    assert run.prediction.dtype == torch.float32
    assert 1e-9 < off(run.prediction[0], its.exact(2, its.lr(2), 20)) <= 5e-5


# -- what is refused ------------------------------------------------------------------------------


def test_wrong_arguments():
    its = ChainCase(*MAIN)
    program = its.compiled(0)
    for bad in (its.chains[1:], its.chains[:, 1:], its.chains[..., 1:], its.chains[0]):
        with pytest.raises(InvalidParameter, match=r"chains.*\(20, 7, 5\)"):
            program.run(bad, None, steps=1, query=its.start(0))
    with pytest.raises(InvalidParameter, match=r"query.*start s\^0"):
        program.run(its.chains, None, steps=1)
    for bad in (its.test[0], its.test[:2, :4], its.test[:0], its.test[None, None, :2]):
        with pytest.raises(InvalidParameter, match="query"):
            program.run(its.chains, None, steps=1, query=bad)
    with pytest.raises(InvalidParameter, match="query"):
        program.run(its.chains[None], None, steps=1, query=its.start(0))
    with pytest.raises(InvalidParameter, match=r"`Y` must be None.*hold their targets"):
        program.run(its.chains, its.chains, steps=1, query=its.start(0))


@pytest.mark.parametrize("extra", [0, 1, 4])
def test_a_complete_chain_is_refused(extra):
    its = ChainCase(*MAIN)
    whole = torch.cat([its.test, its.test[:extra]])
    with pytest.raises(
        InvalidParameter, match=rf"at most L = 6 states. Got {7 + extra}.*nothing follows"
    ):
        its.compiled(0).run(its.chains, None, steps=1, query=whole)


def test_wrong_problems():
    for slope in (0.0, -0.1, 2.0):
        with pytest.raises(InvalidParameter, match=r"slope.*no inverse"):
            icgd.MLPChain(3, 2, 4, slope=slope)
    with pytest.raises(InvalidParameter, match=r"optimizer.*MLPChain"):
        icgd.compile(icgd.MLPChain(3, 2, 4), icgd.GD(0.1, box=1.0))
    with pytest.raises(InvalidParameter, match="n_layers"):
        icgd.MLPChain(3, 0, 4)


@phases
def test_steps_that_are_too_large_are_named(phase):
    its = ChainCase(*MAIN)
    program = its.compiled(phase, factor=2.1)
    with pytest.warns(
        UserWarning, match=rf"lr \* lambda_max = 2\.1 >= 2 for states of phase {phase}"
    ):
        run = program.run(its.chains, None, steps=20, query=its.start(phase))
    exact = its.exact(phase, its.lr(phase, 2.1), 20)
    assert off(run.prediction[0], exact) <= 1e-11 * max(1.0, float(exact.abs().max()))
    its.compiled(phase, factor=1.9).run(its.chains, None, steps=1, query=its.start(phase))


def test_overflow_and_huge_states_are_named():
    its = ChainCase(*MAIN)
    with (
        pytest.warns(UserWarning, match="does not converge"),
        pytest.raises(AssumptionViolated, match=r"overflowed.*Lower lr|diverged: lower lr"),
    ):
        its.compiled(0, factor=1000.0).run(its.chains, None, steps=200, query=its.start(0))
    with pytest.raises(AssumptionViolated, match="gates are exact up to"):
        its.compiled(0).run(its.chains * 1e9, None, steps=1, query=its.start(0))


def test_states_outside_the_radius_are_named():
    its = ChainCase(*MAIN)
    program = icgd.compile(icgd.MLPChain(*MAIN, x_radius=0.1), icgd.GD(0.1), mode="sym")
    with pytest.raises(AssumptionViolated, match="outside its certified range"):
        program.run(its.chains, None, steps=1, query=its.start(0))
    assert (
        program.run(its.chains, None, steps=1, query=its.start(0), watch=False).prediction.dtype
        == F64
    )
