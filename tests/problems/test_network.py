"""Networks: what a compiler may see, He initialisation, and a radius that provably suffices."""

from __future__ import annotations

import math

import pytest
import torch
from cases import BY_NAME, NETWORKS, by_name, compiled, data, init, tensors

from icgd.errors import InvalidParameter, TooLarge
from icgd.problems import Network


@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_the_spec_says_what_was_asked(case):
    spec = case.network.spec
    assert (spec.widths, spec.output, spec.bias) == (case.widths, case.output, case.bias)
    assert spec.n_layers == case.n_layers == case.network.n_layers
    assert spec.d_model == max(case.widths)
    linear = [i for i in range(1, case.n_layers + 1) if spec.is_linear(i)]
    assert linear == ([case.n_layers] if case.output == "linear" else [])


@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_init_has_the_shapes_of_the_layers(case):
    for n_problems in (None, 3):
        batch = () if n_problems is None else (3,)
        weights = case.network.init(0, n_problems=n_problems)
        assert len(weights) == case.n_layers
        for (W, b), d_in, d_out in zip(weights, case.widths, case.widths[1:], strict=False):
            assert W.shape == (*batch, d_out, d_in)
            assert (b is not None) == case.bias
            if b is not None:
                assert b.shape == (*batch, d_out)
                assert not b.any()


def test_init_is_he_initialisation():
    """W ~ N(0, 2 / width_in): mean and variance within five standard errors of a large sample."""
    for W, _ in Network((300, 200, 100)).init(0):
        n, wanted = W.numel(), 2.0 / W.shape[1]
        assert abs(float(W.mean())) <= 5 * math.sqrt(wanted / n)
        assert abs(float(W.var()) - wanted) <= 5 * wanted * math.sqrt(2 / n)


def test_init_depends_on_the_seed_and_on_nothing_else():
    net = Network((3, 4, 2))
    state = torch.random.get_rng_state()
    first, again, other = net.init(7), net.init(7), net.init(8)
    assert all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(again), strict=True))
    assert not torch.equal(first[0][0], other[0][0])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_weights_that_no_memory_holds_are_not_drawn():
    with pytest.raises(TooLarge, match="widths"):
        Network((10**6, 10**6, 1)).init()
    with pytest.raises(TooLarge, match="widths"):
        Network((1000, 1000, 1)).init(n_problems=10**6)


def test_float32_init_is_the_rounded_float64_init():
    net = Network((3, 4, 2))
    for wide, narrow in zip(
        tensors(net.init(1)), tensors(net.init(1, dtype=torch.float32)), strict=True
    ):
        assert narrow.dtype == torch.float32
        assert torch.equal(wide.float(), narrow)


def test_networks_compare_by_what_they_are():
    assert Network([2, 3, 1]) == Network((2, 3, 1))
    assert hash(Network([2, 3, 1])) == hash(Network((2, 3, 1)))
    assert Network((2, 3, 1)) != Network((2, 3, 1), bias=False)
    assert Network((2, 3, 1)) != (2, 3, 1)


def test_the_repr_makes_the_network_again():
    net = Network((2, 3, 1), output="relu", bias=False)
    assert eval(repr(net), {"Network": Network}) == net


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"widths": ()}, "widths"),
        ({"widths": (3,)}, "widths"),
        ({"widths": (3, 0)}, "widths"),
        ({"widths": (3, -1, 2)}, "widths"),
        ({"widths": (3, 2.0)}, "widths"),
        ({"widths": (3, True)}, "widths"),
        ({"widths": "ab"}, "widths"),
        ({"widths": 3}, "widths"),
        ({"widths": (3, 2), "activation": "swish"}, "activation"),
        ({"widths": (3, 2), "activation": "linear"}, "activation"),
        ({"widths": (3, 2), "activation": "tanh", "output": "relu"}, "output"),
        ({"widths": (3, 2), "loss": "absolute"}, "loss"),
        ({"widths": (3, 2), "output": "softmax"}, "output"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(InvalidParameter, match=f"`{name}` must"):
        Network(**arguments)


def test_the_widths_in_the_message_are_those_that_were_passed():
    with pytest.raises(InvalidParameter, match=r"Got \(True, 3, 1\)"):
        Network((True, 3, 1))
    with pytest.raises(InvalidParameter, match=r"Got \(3, 2\.0\)"):
        Network(w for w in (3, 2.0))


@pytest.mark.parametrize("seed", ["a", 1.5, None, 2**64, -(2**63) - 1])
def test_a_seed_that_is_no_seed_is_named(seed):
    with pytest.raises(InvalidParameter, match="`seed` must be an integer"):
        Network((2, 1)).init(seed=seed)


# -- radius_for -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one_layer", "mixed", "relu_output", "deep"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_radius_for_covers_everything_a_run_asks(name, seed):
    """With norms taken from the run itself, no head is asked beyond the radius."""
    case = BY_NAME[name]
    X, Y = data(case, seed, n=12)
    start = init(case, seed)
    run = compiled(case).run(X, Y, init=start, record="weights")
    states = [start, *run.history]
    rows = max(float(W.abs().sum(-1).max()) for state in states for W, _ in state)
    columns = max(float(W.abs().sum(-2).max()) for state in states for W, _ in state)
    biases = max(float(b.abs().max()) for state in states for _, b in state)
    radius = case.network.radius_for(
        x_bound=float(X.abs().max()),
        y_bound=float(Y.abs().max()),
        weight_bound=max(rows, columns),
        bias_bound=biases,
    )
    asked = run.range_use * run.program.radius
    assert asked <= radius


def test_radius_for_grows_with_every_bound():
    net = Network((3, 4, 2))
    base = {"x_bound": 1.0, "y_bound": 1.0, "weight_bound": 1.5, "bias_bound": 0.1}
    for name in base:
        assert net.radius_for(**{**base, name: 2 * base[name]}) > net.radius_for(**base)


@pytest.mark.parametrize("name", ["x_bound", "y_bound", "weight_bound", "bias_bound"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_radius_for_refuses_bounds_that_bound_nothing(name, value):
    bounds = {"x_bound": 1.0, "y_bound": 1.0, "weight_bound": 1.0, "bias_bound": 0.0, name: value}
    with pytest.raises(InvalidParameter, match=f"`{name}` must"):
        Network((2, 1)).radius_for(**bounds)
