"""icgd.cost: counted values, the profiler's count, equal error, growth, and what is left out."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import icgd
from icgd.costs import MethodCost, tables
from icgd.costs.account import RADIUS, known_methods
from icgd.costs.formulas import MODELS
from icgd.errors import InvalidParameter
from icgd.transformer.gadgets.heads.spectral_theory import grid_for_error

N_ROWS = 6


def data(net, n=N_ROWS):
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, net.widths[0], generator=generator, dtype=torch.float64)
    return X, torch.rand(n, net.widths[-1], generator=generator, dtype=torch.float64)


def small(net, seed=0):
    return [(0.3 * W, b) for W, b in net.init(seed=seed)]


# -- against counted values -----------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_stacks_cost_what_their_programs_count(activation, method):
    net = icgd.Network((3, 4, 4, 2), activation)
    program = icgd.compile(net, icgd.GD(lr=0.1, box=1.0), method=method, n_relu=20)
    found = icgd.cost(net, method, n_relu=20, n_examples=N_ROWS, steps=3)
    counts = program.step.counts()
    assert found.parameters == sum(c.parameters for c in counts)
    assert found.nonzeros == sum(c.nonzeros for c in counts)
    assert found.heads == tuple(c.heads for c in counts)
    assert found.hidden == tuple(c.hidden for c in counts)
    assert (found.layers, found.d_token) == (program.step.n_layers, program.layout.width)
    assert found.certified == program.certificate.sup_error
    run = program.run(*data(net), init=small(net), steps=3)
    assert found.flops_total["dense"] == run.cost.dense_flops
    assert found.flops_total["nonzeros"] == run.cost.structured_flops
    assert found.serial_per_pass == len(counts)
    plain = icgd.cost(net, method, n_relu=20, n_examples=N_ROWS, box=False, query=True)
    unboxed = icgd.compile(net, icgd.GD(lr=0.1), method=method, n_relu=20, n_examples=N_ROWS)
    assert plain.flops_per_pass["dense"] == unboxed.step.dense_flops(N_ROWS + 1)


def test_the_chain_of_thought_costs_what_its_program_counts():
    net = icgd.Network((3, 4, 2))
    program = icgd.compile(net, icgd.SGD(lr=0.1), n_grid=32)
    found = icgd.cost(net, "cot", n_examples=N_ROWS, steps=2)
    run = program.run(*data(net), init=small(net), epochs=2)
    assert found.flops_total["dense"] == run.cost.dense_flops
    assert found.flops_total["structured"] == run.cost.structured_flops
    assert found.parameters == program.step.dense_parameters(net.spec.d_model)
    assert found.nonzeros == sum(int((w != 0).sum()) for w in program.step.dense(4).parameters())
    assert run.cost.blocks == found.left_out[2].total
    live = found.state_bytes / (8 * 4 * found.d_token)
    assert live == run.cost.live_blocks_max == 2 * net.n_layers + 2


@pytest.mark.parametrize(
    ("method", "options"),
    [("cot", {}), ("stack", {"n_relu": 16}), ("forward_mode", {"n_relu": 8})],
)
def test_the_profiler_agrees_within_a_percent(method, options):
    """torch counts the matrix products of the literal matrices as they run."""
    # The mean over tokens and products of numbers are no matrix products: well below one percent.
    activation = "relu" if method == "cot" else "tanh"
    net = icgd.Network((3, 4, 2, 2) if method == "forward_mode" else (3, 6, 5, 2), activation)
    optimizer = icgd.SGD(lr=0.1) if method == "cot" else icgd.GD(lr=0.1, box=1.0)
    program = icgd.compile(net, optimizer, method=method, **options)
    found = icgd.cost(net, method, n_examples=2, **options)
    X, Y = data(net, 2)
    how = {"epochs": 1} if method == "cot" else {"steps": 1}
    with FlopCounterMode(display=False) as counter:
        program.run(X, Y, init=small(net), executor="dense", **how)
    assert counter.get_total_flops() == pytest.approx(found.flops_per_pass["dense"], rel=0.01)


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_what_is_run_is_no_more_than_what_is_counted_for_it(method):
    """Scores of all units are one matrix product; the profiler does not see sums and single products."""
    net = icgd.Network((3, 6, 5, 2), "softplus")
    program = icgd.compile(net, icgd.GD(lr=0.1, box=1.0), method=method, n_relu=40)
    found = icgd.cost(net, method, n_examples=N_ROWS, n_relu=40)
    with FlopCounterMode(display=False) as counter:
        program.run(*data(net), init=small(net), steps=1)
    families = [f for _, layer in program.step.each() for f in getattr(layer, "each", list)()]
    scores = sum(2 * N_ROWS * f.n_heads * f.n_features for f in families if hasattr(f, "n_heads"))
    assert scores <= counter.get_total_flops() <= found.flops_per_pass["structured"]


def test_plain_sgd_is_what_autograd_does():
    net = icgd.Network((3, 6, 5, 2), bias=False)
    X, Y = data(net)
    weights = [W.clone().requires_grad_(True) for W, _ in net.init()]
    with FlopCounterMode(display=False) as counter:
        o = X
        for j, W in enumerate(weights):
            o = o @ W.T if j == 2 else torch.relu(o @ W.T)
        (o - Y).square().sum().backward()
    assert (
        counter.get_total_flops()
        == icgd.cost(net, "sgd", n_examples=N_ROWS).flops_per_pass["dense"]
    )


# -- at equal error -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [1e-3, 1e-6])
def test_a_wanted_error_is_certified_by_about_the_fewest_units(error):
    net = icgd.Network((3, 4, 2), "tanh")
    found = icgd.cost(net, "stack", error=error)
    assert found.reached
    assert 0 < found.certified <= error
    n = found.sizes["value"]
    program = icgd.compile(net, icgd.GD(lr=0.1), method="stack", n_relu=n)
    assert program.certificate.sup_error == found.certified
    fewer = icgd.compile(net, icgd.GD(lr=0.1), method="stack", n_relu=int(0.85 * n))
    assert fewer.certificate.sup_error > error
    # The law of the cited theorem is error^-2; this is error^-1/2.
    assert n < 2 * 44 * math.sqrt(1e-3 / error)


def test_what_cannot_be_reached_is_said_and_not_invented():
    net = icgd.Network((3, 4, 2), "tanh")
    found = icgd.cost(net, "stack", error=1e-12)
    assert not found.reached
    assert found.heads is None
    assert set(found.flops_per_example.values()) == set(found.memory_bytes.values()) == {None}
    assert found.layers == 8
    (note,) = found.notes
    assert "out of reach" in note
    rough = icgd.cost(net, "forward_mode", error=1e-9, attention="relu")
    assert not rough.reached
    assert "not reached" in rough.notes[0]
    tiny = icgd.cost(icgd.Network((3, 4, 2)), "cot", error=1e-15)
    assert not tiny.reached
    assert "smallest certified error" in tiny.notes[0]


def test_relu_networks_are_exact_in_a_stack_whatever_the_error():
    net = icgd.Network((3, 4, 2))
    loose, tight = (icgd.cost(net, "stack", error=e) for e in (1e-3, 1e-12))
    assert loose.parameters == tight.parameters
    assert tight.certified == 0.0
    assert tight.sizes == {"value": 1, "slope": 2}


@pytest.mark.parametrize("error", [1e-3, 1e-6, 1e-12])
def test_tokens_of_the_chain_of_thought(error):
    found = icgd.cost(icgd.Network((3, 4, 2)), "cot", error=error)
    assert found.sizes["n_grid"] == grid_for_error(error, RADIUS).n_grid
    assert found.certified <= error
    nearest = next(row for row in found.left_out if row.name == "nearest-level heads")
    assert nearest.total > found.flops_total["dense"] * min(1e2, 0.01 / error)


def test_forward_mode_reaches_small_errors_with_few_units_of_its_own_kind():
    net = icgd.Network((3, 4, 2), "tanh")
    found = icgd.cost(net, "forward_mode", error=1e-6, attention="tanh")
    assert found.sizes["value"] == 1
    assert found.sizes["product"] < 30


def test_another_activation_is_said_not_to_be_trained():
    assert "ReLU" in icgd.cost(icgd.Network((3, 4, 2), "tanh"), "cot").notes[0]
    assert not icgd.cost(icgd.Network((3, 4, 2)), "cot").notes


# -- growth ---------------------------------------------------------------------------------------


def test_powers_of_the_depth():
    """Acceptance bar 9: dense in [2.9, 3.05], non-zeros in [1.0, 1.25] over N = 2..16."""
    assert all(2.9 <= e <= 3.05 for e in tables.exponents_in_depth("dense"))
    assert all(1.0 <= e <= 1.25 for e in tables.exponents_in_depth("nonzeros"))
    assert all(1.95 <= e <= 2.1 for e in tables.exponents_in_depth("linear"))


def test_powers_of_the_width_and_of_the_examples():
    powers = tables.exponents_in_width()
    assert powers == sorted(powers)
    assert 4.8 < powers[-1] < 5.0
    in_examples = tables.exponents_in_examples()
    assert in_examples == sorted(in_examples)
    assert in_examples[0] < 1.2
    assert in_examples[-1] > 1.9


def test_masked_stacks():
    """Full / masked grows like N^2 with dense heads and like N with cost linear in D."""
    depths = (4, 8, 16, 32, 64)
    dense = [tables.masked_ratio(n) for n in depths]
    linear = [tables.masked_ratio(n, "linear") for n in depths]
    assert dense == pytest.approx([17, 59, 222, 859, 3380], rel=0.02)
    assert dense[-1] == pytest.approx(0.82 * 64**2, rel=0.01)
    assert linear[-1] == pytest.approx(0.83 * 64, rel=0.01)
    assert tables.masked_ratio(16, "nonzeros") == 1.0


def test_the_saving_is_one_power_of_the_depth_in_one_model_only():
    assert [round(tables.ratio_exponent(m), 1) for m in MODELS] == [2.0, 1.0, 0.0, 0.0]


def test_on_non_zeros_a_stack_for_relu_networks_is_cheaper_at_every_depth():
    """A negative result for the chain of thought: under this model there is nothing to save."""
    rows = tables.ratio_table("relu", 1e-6)
    assert all(row.ratio["nonzeros"] < 1 for row in rows)
    assert tables.break_even_depth("nonzeros") is None
    assert tables.break_even_depth("dense") <= 3 < tables.break_even_depth("linear")


def test_searching_the_prompt_overtakes_the_layer():
    rounds = tables.break_even_rounds(3)
    found = [
        icgd.cost(tables.network(3), "cot", n_examples=n, steps=1) for n in (rounds, rounds - 1)
    ]
    scans = [next(r for r in c.left_out if r.name == "scanning the prompt").total for c in found]
    assert [s > c.flops_total["dense"] for s, c in zip(scans, found, strict=True)] == [True, False]


# -- the answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", known_methods())
def test_passes_and_totals_are_multiples(method):
    found = icgd.cost(icgd.Network((3, 4, 4, 2)), method, steps=7, n_examples=5)
    assert isinstance(found, MethodCost)
    for model in MODELS:
        assert found.flops_per_pass[model] == pytest.approx(5 * found.flops_per_example[model])
        assert found.flops_total[model] == 7 * found.flops_per_pass[model]
    for row in found.left_out:
        assert row.note
        if row.per_example:
            assert (
                row.total == pytest.approx(7 * row.per_pass) == pytest.approx(35 * row.per_example)
            )
    assert found.to_dict()["widths"] == (3, 4, 4, 2)
    assert found.updates_per_pass == (5 if method in ("cot", "sgd") else 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "magic"}, "`method` must be one of cot, stack, forward_mode, sgd"),
        ({"steps": 0}, "`steps` must be an integer >= 1"),
        ({"n_examples": 1.5}, "`n_examples` must be an integer >= 1"),
        ({"error": -1.0}, "`error` must be a finite number > 0"),
        ({"method": "stack", "error": 1e-3, "n_relu": 5}, "`n_relu` must be left out with `error`"),
        ({"method": "cot", "n_relu": 5}, "`n_relu` must be left out for method='cot'"),
        ({"method": "stack", "attention": "tanh"}, "`attention` must be left out"),
        ({"method": "stack", "n_relu": 1}, "`n_relu` must be an integer >= 3"),
    ],
)
def test_bad_requests(options, words):
    with pytest.raises(InvalidParameter, match=words):
        icgd.cost(icgd.Network((3, 4, 2), "tanh"), **options)


def test_bad_networks():
    with pytest.raises(InvalidParameter, match="`net` must be an icgd"):
        icgd.cost((3, 4, 2))
    with pytest.raises(InvalidParameter, match="`output` must be 'linear'"):
        icgd.cost(icgd.Network((3, 4, 2), "tanh", "tanh"), "forward_mode")
