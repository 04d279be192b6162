"""Method "forward_mode": box, scratch slots, ranges, wrong arguments, files."""

from __future__ import annotations

import copy

import pytest
import torch
from gd_cases import BOX, F64, LR, SHAPES, apart, data, gd, program, tensors

import icgd
from icgd.errors import AssumptionViolated, InvalidFile, InvalidParameter
from icgd.mechanisms.stacks.codec import STATE
from icgd.transformer.mask_rules import Step
from icgd.transformer.nn.stack.stack import Stack

# -- the box, the scratch slots, the ranges -----------------------------------------------------------


@pytest.mark.parametrize("executor", ["collapsed", "sparse"])
def test_the_box_is_exact(executor):
    box = 0.4
    p = program((3, 4, 4, 1), "tanh", "tanh", box=box, n_relu=16)
    X, Y, init = data((3, 4, 4, 1))
    Y = 4 * Y
    init = [(W.clamp(-box, box), b) for W, b in init]
    run = p.run(X, Y, init=init, steps=10, executor=executor)
    exact = gd("tanh", init, X, Y, 10, box=box)[-1]
    assert apart(run.weights, exact) <= 1e-10
    largest = max(float(W.abs().max()) for W, _ in run.weights)
    assert largest == box
    clipped = sum(int((W.abs() == box).sum()) for W, _ in run.weights)
    assert clipped == sum(int((W.abs() == box).sum()) for W in exact) > 3


def test_without_a_box_weights_go_where_they_will():
    p = program((3, 4, 1), "tanh", "tanh", box=None, n_relu=16)
    X, Y, init = data((3, 4, 1))
    init = [(2 * W, b) for W, b in init]
    run = p.run(X, Y, init=init, steps=3)
    assert apart(run.weights, gd("tanh", init, X, Y, 3, box=None)[-1]) <= 1e-10
    assert max(float(W.abs().max()) for W, _ in run.weights) > BOX


@pytest.mark.parametrize("n", SHAPES)
@pytest.mark.parametrize("attention", ["tanh", "sigmoid", "relu"])
@pytest.mark.parametrize("evaluation", ["collapsed", "sparse"])
def test_scratch_is_zero_and_tokens_agree_after_a_step(n, attention, evaluation):
    widths = SHAPES[n]
    p = program(widths, "softplus", attention)
    assert isinstance(p.step, Stack)
    X, Y, init = data(widths)
    tokens = torch.zeros(20, p.layout.width, dtype=F64)
    for name, value in {"x": X, "y": Y, "train": 1.0, "one": 1.0}.items():
        tokens[:, p.layout.index(name)] = torch.as_tensor(value, dtype=F64)
    for j, (W, _) in enumerate(init, 1):
        tokens[:, p.layout.index(f"weight{j}")] = W
    after = p.step(tokens, evaluation)
    for slot in p.layout:
        part = after[:, p.layout.slice(slot.name)]
        if slot.name.startswith("weight"):
            assert float((part - part[:1]).abs().max()) <= 1e-14
            assert not torch.equal(part, tokens[:, p.layout.slice(slot.name)])
        else:
            assert torch.equal(part, tokens[:, p.layout.slice(slot.name)]), slot.name


def test_leaving_the_range_of_preactivations_is_an_error():
    p = program((3, 4, 4, 1), "softplus", "tanh", radius=0.5, n_relu=32)
    X, Y, init = data((3, 4, 4, 1))
    with pytest.raises(AssumptionViolated, match=r"Recompile with radius >= \d") as caught:
        p.run(X, Y / 4, init=init, steps=1)
    assert "[-0.5, 0.5]" in str(caught.value)
    p.run(X, Y / 4, init=init, steps=1, watch=False)


@pytest.mark.parametrize("widths", [(3, 4, 1), (3, 4, 4, 1)])
def test_leaving_the_range_of_derivatives_is_an_error(widths):
    p = program(widths, "softplus", "tanh", signal_radius=0.05, n_relu=32)
    X, Y, init = data(widths)
    with pytest.raises(AssumptionViolated, match=r"Recompile with signal_radius >= \d"):
        p.run(X, Y, init=init, steps=1)


def test_targets_outside_their_range_are_refused():
    p = program((3, 4, 1), "softplus", "tanh", target_radius=0.5, n_relu=32)
    X, Y, init = data((3, 4, 1))
    with pytest.raises(icgd.IcgdError, match="Y"):
        p.run(X, Y, init=init, steps=1)


# -- wrong arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "more", "error", "text"),
    [
        ("softplus", {"attention": "softmax"}, icgd.IcgdError, "softmax|one of"),
        ("softplus", {"attention": "exp"}, AssumptionViolated, "Definition 3"),
        ("softplus", {"attention": "linear"}, AssumptionViolated, "Definition 3"),
        ("relu", {"attention": "tanh"}, AssumptionViolated, 'attention="relu"'),
        ("relu", {"attention": "sigmoid"}, AssumptionViolated, "corner"),
        ("softplus", {"knots": "uniform"}, InvalidParameter, "knots"),
        ("softplus", {"products": "exact"}, InvalidParameter, "products"),
        ("softplus", {"n_grid": 8}, InvalidParameter, "n_grid"),
        ("softplus", {"n_relu": 2}, InvalidParameter, "n_relu"),
        ("softplus", {"n_relu": 2.5}, InvalidParameter, "n_relu"),
        ("softplus", {"radius": -1.0}, InvalidParameter, "radius"),
        ("softplus", {"signal_radius": 0.0}, InvalidParameter, "signal_radius"),
        ("softplus", {"n_examples": 0}, InvalidParameter, "n_examples"),
    ],
)
def test_wrong_options(act, more, error, text):
    with pytest.raises(error, match=text):
        icgd.compile(icgd.Network((2, 3, 1), act), icgd.GD(LR), method="forward_mode", **more)


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_step_size_whose_updates_overflow_is_refused(method, dtype):
    lr = torch.finfo(dtype).max / 10
    with pytest.raises(
        InvalidParameter, match=r"`lr` must be at most .* updates overflow. Got .* Lower lr"
    ):
        icgd.compile(icgd.Network((1, 1, 1), "tanh"), icgd.GD(lr), method=method, dtype=dtype)


def test_a_token_that_strays_is_noticed():
    """Room for rounding is no room for a head that writes into one token only."""
    made = program((1, 1, 1), "softplus", "tanh")
    X, Y, init = data((1, 1, 1), n=5)
    session = made.codec.session(X, Y, init=init, steps=1, padded=False)
    engine = made.executor(session, "dense")
    tokens = engine.step([engine.load(session.prompt[STATE])], Step("update", STATE, (STATE,)), 1)
    engine.dump(tokens)
    tokens[2, made.layout.index("weight1")] += 1e-5
    with pytest.raises(AssumptionViolated, match="Tokens disagree by 1e-05"):
        engine.dump(tokens)


def test_an_activated_output_is_refused():
    net = icgd.Network((2, 3, 1), "tanh", output="tanh")
    with pytest.raises(InvalidParameter, match=r"linear.*method='stack'"):
        icgd.compile(net, icgd.GD(LR), method="forward_mode")


def test_sgd_is_refused():
    with pytest.raises(InvalidParameter, match=r"icgd\.GD"):
        icgd.compile(icgd.Network((2, 3, 1)), icgd.SGD(LR), method="forward_mode")


def test_runs_need_steps_and_matching_rows():
    p = program((3, 4, 1), "tanh", "tanh", n_relu=16, n_examples=20)
    X, Y, init = data((3, 4, 1))
    with pytest.raises(InvalidParameter, match="epochs"):
        p.run(X, Y, init=init, epochs=1)
    with pytest.raises(InvalidParameter, match="steps"):
        p.run(X, Y, init=init)
    with pytest.raises(InvalidParameter, match="20 rows"):
        p.run(X[:5], Y[:5], init=init, steps=1)
    with pytest.raises(InvalidParameter, match="box"):
        p.run(X, Y, init=[(9 * W, b) for W, b in init], steps=1)
    free = program((3, 4, 1), "tanh", "tanh", n_relu=16)
    with pytest.raises(InvalidParameter, match="n_examples"):
        free.run(X, Y, init=init, steps=1, query=X[:1])


# -- files and weights ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "attention", "bias"),
    [("softplus", "tanh", True), ("tanh", "sigmoid", False), ("relu", "relu", True)],
)
def test_saved_programs_are_the_same(tmp_path, act, attention, bias):
    widths = (2, 3, 3, 1)
    p = program(widths, act, attention, bias=bias, n_relu=16)
    p.save_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path)
    for (name, a), (other, b) in zip(p.named_parameters(), loaded.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(a, b)
    X, Y, init = data(widths, bias=bias)
    for a, b in zip(
        tensors(p.run(X, Y, init=init, steps=3).weights),
        tensors(loaded.run(X, Y, init=init, steps=3).weights),
        strict=True,
    ):
        assert torch.equal(a, b)


def test_altered_files_are_refused_unless_wanted(tmp_path):
    p = copy.deepcopy(program((2, 3, 3, 1), "tanh", "tanh", n_relu=16))
    weights = p.step.sublayers["attention1"].families["out1"].c
    weights.data[0] *= 1.01
    p.save_pretrained(tmp_path)
    with pytest.raises(InvalidFile, match="allow_altered"):
        icgd.Program.from_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path, allow_altered=True)
    X, Y, init = data((2, 3, 3, 1))
    assert not icgd.verify(loaded, X, Y, init=init, steps=1).passed


def test_weights_depend_on_the_specification_alone():
    net = icgd.Network((3, 4, 4, 1), "softplus", bias=False)
    kwargs = {"method": "forward_mode", "attention": "tanh", "n_relu": 32}
    a = icgd.compile(net, icgd.GD(LR, box=BOX), **kwargs)
    state = {k: v.clone() for k, v in a.state_dict().items()}
    X, Y, init = data((3, 4, 4, 1), 5)
    a.run(X, Y, init=init, steps=3)
    b = icgd.compile(net, icgd.GD(LR, box=BOX), **kwargs)
    assert all(torch.equal(v, a.state_dict()[k]) for k, v in state.items())
    assert all(torch.equal(v, b.state_dict()[k]) for k, v in state.items())
    c = icgd.compile(net, icgd.GD(2 * LR, box=BOX), **kwargs)
    assert any(not torch.equal(v, c.state_dict()[k]) for k, v in state.items())
