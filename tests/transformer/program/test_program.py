"""Programs as users meet them: run, predict, record, count, and refuse what cannot be right."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from cases import (
    BY_NAME,
    DEFAULT,
    HARD,
    NETWORKS,
    by_name,
    compiled,
    data,
    distance,
    exact_sgd,
    forward,
    identical,
    init,
    tensors,
)
from torch.utils.flop_counter import FlopCounterMode

import icgd
from icgd.errors import AssumptionViolated, InvalidParameter

F64 = torch.float64
EXACT = 1e-12
"""The bar of the package: |W - W_sgd| and |prediction - network| in float64."""
EXECUTORS = pytest.mark.parametrize("executor", ["structured", "dense"])
MIXED = BY_NAME["mixed"]


def snapshot(program):
    return {name: value.clone() for name, value in program.state_dict().items()}


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


# -- frozen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [DEFAULT, HARD], ids=by_name)
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_weights_depend_on_no_data_and_no_run_changes_them(case, options):
    def make():
        return icgd.compile(case.network, icgd.SGD(lr=case.lr), **options.options)

    program = make()
    before = snapshot(program)
    for seed, executor in ((1, "structured"), (2, "dense"), (2, "structured")):
        X, Y = (t / 2 for t in data(case, seed, n=4))
        program.run(X, Y, init=init(case, seed), executor=executor).predict(X)
    assert same(snapshot(program), before)
    assert same(snapshot(make()), before)
    assert not any(p.requires_grad for p in program.parameters())
    assert not list(program.buffers())


def test_only_lr_and_options_change_the_weights():
    base = snapshot(icgd.compile(MIXED.network, icgd.SGD(lr=0.1)))
    assert not same(base, snapshot(icgd.compile(MIXED.network, icgd.SGD(lr=0.2))))
    assert not same(base, snapshot(icgd.compile(MIXED.network, icgd.SGD(lr=0.1), radius=64.0)))
    changed = [
        name
        for name, value in snapshot(icgd.compile(MIXED.network, icgd.SGD(lr=0.2))).items()
        if not torch.equal(value, base[name])
    ]
    assert sorted(changed) == [
        "step.attention.banks.inputs.output.delta>weight_backward",
        "step.post.skips.delta>bias.coef",
    ]


def test_running_leaves_no_gradient_and_no_random_state_behind():
    X, Y = data(MIXED, 0, n=3)
    state = torch.random.get_rng_state()
    run = compiled(MIXED).run(X.requires_grad_(), Y, init=init(MIXED, 0))
    assert not any(t.requires_grad for t in tensors(run.weights))
    assert torch.is_grad_enabled()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_copied_program_is_independent():
    program = icgd.compile(MIXED.network, icgd.SGD(lr=0.1))
    twin = copy.deepcopy(program)
    X, Y = data(MIXED, 0, n=3)
    start = init(MIXED, 0)
    first = program.run(X, Y, init=start)
    assert identical(first.weights, twin.run(X, Y, init=start).weights)
    twin.step.attention.levels.data *= 1.01
    assert identical(first.weights, program.run(X, Y, init=start).weights)
    assert not identical(first.weights, twin.run(X, Y, init=start).weights)


@pytest.mark.parametrize("use", ["run", "predict"])
def test_a_program_in_another_precision_than_compiled_is_refused(use):
    program = icgd.compile(MIXED.network, icgd.SGD(lr=0.1)).float()
    X, Y = data(MIXED, 0, n=2)
    start = init(MIXED, 0)
    with pytest.raises(AssumptionViolated, match="compiled for float64"):
        program.run(X, Y, init=start) if use == "run" else program.predict(X, start)


# -- epochs and records ---------------------------------------------------------------------------


@EXECUTORS
def test_epochs_go_through_the_examples_in_order_again(executor):
    X, Y = data(MIXED, 0, n=5)
    start = init(MIXED, 0)
    program = compiled(MIXED)
    thrice = program.run(X, Y, init=start, epochs=3, executor=executor)
    unrolled = program.run(X.repeat(3, 1), Y.repeat(3, 1), init=start, executor=executor)
    assert identical(thrice.weights, unrolled.weights)
    assert distance(thrice.weights, exact_sgd(MIXED, start, X, Y, epochs=3)[-1]) <= EXACT
    assert thrice.cost.rounds == 15


@EXECUTORS
@pytest.mark.parametrize("name", ["scalar", "mixed", "no_bias"])
def test_a_history_is_the_weights_after_every_round(name, executor):
    case = BY_NAME[name]
    X, Y = data(case, 1, n=6)
    start = init(case, 1)
    run = compiled(case).run(X, Y, init=start, epochs=2, record="weights", executor=executor)
    exact = exact_sgd(case, start, X, Y, epochs=2)
    assert len(run.history) == len(exact) == 12
    assert max(distance(a, b) for a, b in zip(run.history, exact, strict=True)) <= EXACT
    assert identical(run.history[-1], run.weights)
    assert identical(
        run.weights, compiled(case).run(X, Y, init=start, epochs=2, executor=executor).weights
    )


@EXECUTORS
def test_a_record_function_sees_every_round(executor):
    X, Y = data(MIXED, 1, n=4)
    start = init(MIXED, 1)
    seen = []

    def keep(round_, weights):
        seen.append((round_, [(W.clone(), b.clone()) for W, b in weights]))

    run = compiled(MIXED).run(X, Y, init=start, record=keep, executor=executor)
    history = compiled(MIXED).run(X, Y, init=start, record="weights", executor=executor).history
    assert [round_ for round_, _ in seen] == [1, 2, 3, 4]
    assert all(identical(a, b) for (_, a), b in zip(seen, history, strict=True))
    assert run.history is None
    assert run.trace == []


def test_a_trace_names_every_block_and_what_it_saw():
    X, Y = data(MIXED, 1, n=2)
    run = compiled(MIXED).run(X, Y, init=init(MIXED, 1), record="trace")
    steps = compiled(MIXED).mask.steps()
    assert [entry.step for entry in run.trace] == [*steps, *steps]
    assert [entry.round for entry in run.trace] == [1] * len(steps) + [2] * len(steps)
    assert run.history is None


def test_progress_is_reported_to_a_function():
    X, Y = data(MIXED, 0, n=4)
    calls = []
    compiled(MIXED).run(X, Y, init=init(MIXED, 0), epochs=2, progress=lambda *a: calls.append(a))
    assert calls == [(done, 8) for done in range(1, 9)]


def test_progress_off_a_terminal_is_plain_lines(capsys):
    X, Y = data(MIXED, 0, n=20)
    compiled(MIXED).run(X, Y, init=init(MIXED, 0), progress=True)
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [f"rounds {n}/20" for n in range(2, 21, 2)]
    assert shown.out == ""


# -- predictions ----------------------------------------------------------------------------------


@EXECUTORS
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_predictions_are_the_networks_own(case, executor):
    X, _ = data(case, 0, n=7)
    weights = init(case, 0)
    got = compiled(case).predict(X, weights, executor=executor)
    exact = forward(case, weights, X)
    assert got.shape == exact.shape
    assert float((got - exact).abs().max()) <= EXACT


@EXECUTORS
def test_a_batch_of_problems_predicts_each_with_its_own_weights(executor):
    X, _ = data(MIXED, 0, n=4, batch=(3,))
    weights = init(MIXED, 0, n_problems=3)
    got = compiled(MIXED).predict(X, weights, executor=executor)
    for i in range(3):
        own = [(W[i], b[i]) for W, b in weights]
        assert float((got[i] - forward(MIXED, own, X[i])).abs().max()) <= EXACT


@EXECUTORS
def test_a_run_predicts_with_its_final_weights(executor):
    X, Y = data(MIXED, 0, n=10)
    run = compiled(MIXED).run(X, Y, init=init(MIXED, 0), executor=executor)
    new, _ = data(MIXED, 9, n=5)
    assert float((run.predict(new) - forward(MIXED, run.weights, new)).abs().max()) <= EXACT
    assert run.predict(new[:1]).shape == (1, 2)


def test_predicting_changes_nothing():
    X, Y = data(MIXED, 0, n=5)
    run = compiled(MIXED).run(X, Y, init=init(MIXED, 0))
    before = [t.clone() for t in tensors(run.weights)]
    first = run.predict(X)
    assert torch.equal(first, run.predict(X))
    assert all(torch.equal(a, b) for a, b in zip(before, tensors(run.weights), strict=True))


# -- what may be passed in ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert",
    [
        lambda t: t.numpy(),
        lambda t: t.tolist(),
        lambda t: np.asfortranarray(t.numpy()),
        lambda t: t.numpy()[::-1][::-1],
        lambda t: torch.stack([t, t], dim=1)[:, 0],
    ],
    ids=["numpy", "lists", "fortran", "view", "strided"],
)
def test_arrays_of_every_kind_give_the_same_run(convert):
    X, Y = data(MIXED, 0, n=4)
    start = init(MIXED, 0)
    expected = compiled(MIXED).run(X, Y, init=start).weights
    given = [(convert(W), convert(b.unsqueeze(0))[0]) for W, b in start]
    got = compiled(MIXED).run(convert(X), convert(Y), init=given)
    # Another memory order may round otherwise; digits lost on the way in would show at 1e-8.
    assert distance(got.weights, expected) <= 1e-13


def test_an_array_that_may_not_be_written_to_is_fine_to_read():
    X, Y = (t.numpy() for t in data(MIXED, 0, n=4))
    X.setflags(write=False)
    start = init(MIXED, 0)
    got = compiled(MIXED).run(X, Y, init=start)
    assert identical(got.weights, compiled(MIXED).run(X.copy(), Y, init=start).weights)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int32])
def test_other_number_types_are_converted(dtype):
    X, Y = data(MIXED, 0, n=4)
    X = (4 * X).round()
    start = init(MIXED, 0)
    got = compiled(MIXED).run(X.numpy().astype(dtype), Y, init=start)
    assert identical(got.weights, compiled(MIXED).run(X, Y, init=start).weights)


def test_a_column_may_be_given_as_a_vector():
    case = BY_NAME["scalar"]
    X, Y = data(case, 0, n=4)
    start = init(case, 0)
    flat = compiled(case).run(X[:, 0], Y[:, 0], init=start)
    assert identical(flat.weights, compiled(case).run(X, Y, init=start).weights)


def bad_weights(layer, part, value):
    weights = [list(pair) for pair in init(MIXED, 0)]
    weights[layer][part] = value
    return weights


GOOD_X, GOOD_Y = data(MIXED, 0, n=3)
BAD = {
    "nan": ({"X": torch.full((3, 4), math.nan)}, "`X` must be finite"),
    "inf": ({"Y": torch.tensor([[0.0, 0.0], [0.0, math.inf], [0.0, 0.0]])}, "`Y` must be finite"),
    "x width": ({"X": torch.zeros(3, 5)}, r"`X` must have shape \(n, 4\)"),
    "x vector": ({"X": torch.zeros(4)}, "`X` must have shape"),
    "x number": ({"X": 3.0}, "`X` must have shape"),
    "x axes": ({"X": torch.zeros(1, 1, 3, 4)}, "`X` must have shape"),
    "x empty": ({"X": torch.zeros(0, 4), "Y": torch.zeros(0, 2)}, "`X` must hold at least one"),
    "x no problems": ({"X": torch.zeros(0, 3, 4), "Y": torch.zeros(0, 3, 2)}, "`X` must hold"),
    "x words": ({"X": [["a"] * 4] * 3}, "`X` must be a numeric array"),
    "x word": ({"X": "examples"}, "`X` must be a numeric array"),
    "x none": ({"X": None}, "`X` must be a numeric array"),
    "x ragged": ({"X": [[1.0, 2.0], [3.0]]}, "`X` must be a numeric array"),
    "x objects": ({"X": np.array([[None] * 4] * 3)}, "`X` must be a numeric array"),
    "x complex": ({"X": torch.zeros(3, 4, dtype=torch.complex64)}, "`X` must hold real numbers"),
    "x booleans": ({"X": torch.zeros(3, 4, dtype=torch.bool)}, "`X` must hold real numbers"),
    "y rows": ({"Y": torch.zeros(2, 2)}, "`Y` must have one row per row of X"),
    "y width": ({"Y": torch.zeros(3, 1)}, r"`Y` must have shape \(n, 2\)"),
    "y batch": ({"Y": torch.zeros(1, 3, 2)}, "`Y` must have one row per row of X"),
    "init none": ({"init": None}, r"`init` must be a list of 3 pairs \(W, b\)"),
    "init tensor": ({"init": torch.zeros(3)}, "`init` must be a list of 3 pairs"),
    "init short": (
        {"init": init(MIXED, 0)[:2]},
        "`init` must be a list of 3 pairs.*Got 'list of 2'",
    ),
    "init flat": ({"init": tensors(init(MIXED, 0))[:3]}, r"`init\[0\]` must be a pair"),
    "init transposed": (
        {"init": bad_weights(0, 0, torch.zeros(4, 3))},
        r"`init\[0\] W` must have shape",
    ),
    "init nan": (
        {"init": bad_weights(1, 0, torch.full((5, 3), math.nan))},
        r"`init\[1\] W` must be finite",
    ),
    "init no bias": ({"init": bad_weights(2, 1, None)}, r"`init\[2\] b` must"),
    "init bias": (
        {"init": bad_weights(2, 1, torch.zeros(3))},
        r"`init\[2\] b` must have shape \(2,\)",
    ),
    "init batch": ({"init": init(MIXED, 0, n_problems=2)}, r"`init\[0\] W` must have shape"),
    "epochs 0": ({"epochs": 0}, "`epochs` must be an integer >= 1"),
    "epochs -1": ({"epochs": -1}, "`epochs` must be an integer >= 1"),
    "epochs 1.5": ({"epochs": 1.5}, "`epochs` must be an integer >= 1"),
    "epochs true": ({"epochs": True}, "`epochs` must be an integer >= 1"),
    "record": ({"record": "everything"}, "`record` must be"),
    "executor": ({"executor": "gpu"}, "`executor` must be 'structured' or 'dense'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    override, message = BAD[name]
    arguments = {"X": GOOD_X, "Y": GOOD_Y, "init": init(MIXED, 0), **override}
    with pytest.raises(InvalidParameter, match=message):
        compiled(MIXED).run(**arguments)


def test_the_first_bad_entry_is_located():
    X = GOOD_X.clone()
    X[2, 1] = math.nan
    with pytest.raises(InvalidParameter, match=r"The first bad entry is at \(2, 1\)"):
        compiled(MIXED).run(X, GOOD_Y, init=init(MIXED, 0))


def test_a_bias_for_a_network_without_one_is_refused():
    case = BY_NAME["no_bias"]
    X, Y = data(case, 0, n=2)
    weights = [(W, torch.zeros(5, dtype=F64)) for W, _ in init(case, 0)]
    with pytest.raises(InvalidParameter, match=r"`init\[0\] b` must be None"):
        compiled(case).run(X, Y, init=weights)


@pytest.mark.parametrize("bad", ["X", "weights"])
def test_bad_predictions_are_named(bad):
    X, weights = GOOD_X, init(MIXED, 0)
    with pytest.raises(InvalidParameter, match=f"`{bad}` must"):
        compiled(MIXED).predict(
            torch.zeros(3, 9) if bad == "X" else X, weights[:1] if bad == "weights" else weights
        )


# -- costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_blocks_and_rounds_are_counted(case):
    X, Y = data(case, 0, n=3)
    cost = compiled(case).run(X, Y, init=init(case, 0), epochs=2).cost
    assert cost.rounds == 6
    assert cost.blocks == 2 * case.n_layers * 6
    assert cost.as_dict()["blocks"] == cost.blocks


@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_dense_flops_are_those_pytorch_counts(case):
    program, d = compiled(case), max(case.widths)
    layer = program.step.dense(d)
    tokens = torch.zeros(d, 2 * program.layout.width, dtype=F64)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(tokens)
    X, Y = data(case, 0, n=2)
    cost = program.run(X, Y, init=init(case, 0)).cost
    assert cost.dense_flops == cost.blocks * counter.get_total_flops()


@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_dense_parameters_are_counted_without_making_them(case):
    program, d = compiled(case), max(case.widths)
    entries = sum(p.numel() for p in program.step.dense(d).parameters())
    assert program.step.dense_parameters(d) == entries


def test_structured_costs_a_small_part_of_dense():
    X, Y = data(BY_NAME["deep"], 0, n=2)
    cost = compiled(BY_NAME["deep"]).run(X, Y, init=init(BY_NAME["deep"], 0)).cost
    assert 0 < 1000 * cost.structured_flops < cost.dense_flops


@pytest.mark.parametrize("use", ["run", "predict"])
def test_literal_matrices_of_a_wide_network_are_refused(use):
    net = icgd.Network((40, 40))
    program = icgd.compile(net, icgd.SGD(lr=0.01))
    X = torch.zeros(1, 40)
    calls = {
        "run": lambda: program.run(X, X, init=net.init(0), executor="dense"),
        "predict": lambda: program.predict(X, net.init(0), executor="dense"),
    }
    with pytest.raises(AssumptionViolated, match="Use executor='structured'") as caught:
        calls[use]()
    assert f"{program.step.dense_parameters(40):,} entries" in str(caught.value)
    program.run(X, X, init=net.init(0))


def test_the_repr_says_what_was_compiled():
    text = repr(compiled(MIXED))
    for part in ("softmax_cot_network", "(4, 3, 5, 2)", "SGD", "spectral"):
        assert part in text
