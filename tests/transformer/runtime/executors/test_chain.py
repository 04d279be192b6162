"""Two executors, one function: on every step type, over whole runs, and with altered weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from cases import (
    BLURRED,
    BY_NAME,
    DEFAULT,
    HARD,
    NETWORKS,
    OPTIONS,
    by_name,
    compiled,
    copied,
    data,
    dense_step,
    distance,
    exact_sgd,
    identical,
    init,
    literal,
    relative_gap,
    structured_step,
    tensors,
)

import icgd
from icgd.errors import AssumptionViolated
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import DynamicMask, Step

AGREE = 1e-12
"""What the two executors may differ by, relative to the largest entry: rounding over a run."""

DATA_FLAGS = {"not_forward": 1.0, "not_backward": 1.0}


# -- single steps on filled blocks ----------------------------------------------------------------


def normal(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64).clamp(-3, 3)


def refilled(block, generator):
    """The same kind of block with random numbers in every slot, and nothing read off beforehand."""
    slots = {slot: normal(generator, *value.shape) for slot, value in block.slots.items()}
    for slot, tag in block.signature:
        if str(tag).startswith("closed"):
            slots[slot] = slots[slot].relu()
    return Block(slots, block.signature)


FLAGS = {
    "F": {"not_backward": 1.0, "not_data": 1.0},
    "B": {"not_forward": 1.0, "not_data": 1.0},
    "X": DATA_FLAGS,
    "Y": DATA_FLAGS,
}
MEANT = {
    "F": ("out", "inp", "closed", "weight", "bias"),
    "B": ("out", "inp", "weight", "bias"),
    "X": ("out",),
    "Y": ("out",),
}


def full_block(program, kind, generator, *, leftovers):
    """A block of full width; with leftovers, numbers also in slots its kind leaves empty."""
    values = {}
    for slot in program.layout:
        if slot.shape:
            value = normal(generator, *slot.shape)
            value = (value > 0).double() if slot.name == "closed" else value
            if leftovers or slot.name in MEANT[kind]:
                values[slot.name] = value
    return make_block({**values, **FLAGS[kind]})


def filled_blocks(case, options, seed):
    """A random block for every address a round reads, in the extents of the live layers."""
    program = compiled(case, options)
    generator = torch.Generator().manual_seed(seed)
    X, Y = data(case, 0, n=1)
    trace = program.run(X, Y, init=init(case, 0), record="trace").trace
    blocks = {entry.step.writes: refilled(entry.block, generator) for entry in trace}
    for address, width in ((("X", 0), case.widths[0]), (("Y", 0), case.widths[-1])):
        blocks[address] = make_block({"out": normal(generator, width), **DATA_FLAGS})
    return blocks


def slots_of(tokens, program, case, step):
    """Slots of literal tokens; the ReLU of a padding unit is closed in dense, absent in structured."""
    slots = program.layout.unpack(tokens)
    slots["closed"][..., case.widths[step.writes[1]] :] = 0.0
    return slots


@pytest.mark.parametrize("options", OPTIONS, ids=by_name)
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_every_step_type_writes_the_same_block(case, options):
    program, d = compiled(case, options), max(case.widths)
    for seed in range(3):
        blocks = filled_blocks(case, options, seed)
        for step in program.mask.steps():
            visible = [blocks[address] for address in step.reads]
            ours = literal(structured_step(program.step, visible, keep_all=True), program.layout, d)
            theirs = dense_step(program.step, program.layout, visible, n_columns=d)
            left, right = (slots_of(t, program, case, step) for t in (ours, theirs))
            for slot in program.layout.names:
                assert relative_gap(right[slot], left[slot]) <= AGREE, (step.kind, slot)


@pytest.mark.parametrize("name", ["mixed", "relu_output"])
def test_gates_open_at_the_same_activation_to_the_last_bit(name):
    """Activations at 0, inside the ramp, one step below its end, at its end, and above."""
    case = BY_NAME[name]
    program, d = compiled(case), max(case.widths)
    end = 1 / program.step.slope
    below = math.nextafter(end, 0.0)
    special = torch.tensor([0.0, end / 2, below, end, 1.0], dtype=torch.float64)
    blocks = filled_blocks(case, DEFAULT, 0)
    opened = 0
    for shift in range(5):
        for address, block in blocks.items():
            if address[0] == "F" and "closed" in block.slots:
                width = block.slots["closed"].shape[-1]
                block.slots["closed"] = special.roll(shift).repeat(2)[:width]
        for step in program.mask.steps()[case.n_layers :]:
            visible = [blocks[address] for address in step.reads]
            ours = literal(structured_step(program.step, visible, keep_all=True), program.layout, d)
            theirs = dense_step(program.step, program.layout, visible, n_columns=d)
            delta = [program.layout.unpack(t)["out"][0] for t in (ours, theirs)]
            assert torch.equal(delta[0] == 0, delta[1] == 0), step.kind
            opened += int((delta[0] != 0).sum())
    assert opened


@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_leftovers_in_slots_of_another_kind_are_ignored(case):
    program, d = compiled(case), max(case.widths)
    for step in program.mask.steps():
        dirty, clean = (
            [
                full_block(program, kind, torch.Generator().manual_seed(layer), leftovers=leftovers)
                for kind, layer in step.reads
            ]
            for leftovers in (True, False)
        )
        structured = [
            literal(structured_step(program.step, b, keep_all=True), program.layout, d)
            for b in (dirty, clean)
        ]
        dense = [dense_step(program.step, program.layout, b, n_columns=d) for b in (dirty, clean)]
        assert torch.equal(*structured), step.kind
        assert torch.equal(*dense), step.kind
        assert relative_gap(dense[0], structured[0]) <= AGREE, step.kind


# -- whole runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=by_name)
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_whole_runs_write_the_same_blocks(case, options):
    """Slot by slot and block by block, also where the heads are visibly wrong."""
    program, d = compiled(case, options), max(case.widths)
    X, Y = data(case, 2, n=10)
    start = init(case, 2)
    ours, theirs = (
        program.run(X, Y, init=start, executor=name, record="trace")
        for name in ("structured", "dense")
    )
    assert len(ours.trace) == len(theirs.trace) == 2 * case.n_layers * 10
    for mine, other in zip(ours.trace, theirs.trace, strict=True):
        assert (mine.round, mine.step) == (other.round, other.step)
        left, right = (
            slots_of(literal(entry.block, program.layout, d), program, case, entry.step)
            for entry in (mine, other)
        )
        for slot in program.layout.names:
            gap = relative_gap(right[slot], left[slot])
            assert gap <= AGREE, (mine.round, mine.step.kind, slot)
    size = max(1.0, max(float(t.abs().max()) for t in tensors(theirs.weights)))
    assert distance(ours.weights, theirs.weights) <= AGREE * size
    assert math.isclose(ours.range_use, theirs.range_use, rel_tol=1e-9)


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("options", [HARD, BLURRED], ids=by_name)
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_where_the_heads_are_wrong_the_run_is_too(case, options, executor):
    """The comparison above proves something only because no plain SGD loop could pass it."""
    X, Y = data(case, 2, n=10)
    start = init(case, 2)
    run = compiled(case, options).run(X, Y, init=start, executor=executor)
    assert distance(run.weights, exact_sgd(case, start, X, Y)[-1]) > 1e-8


@pytest.mark.parametrize("name", ["scalar", "mixed", "relu_output"])
def test_executors_agree_in_float32(name):
    """To the rounding of float32 over a short run, given that no unit came near its kink."""
    case = BY_NAME[name]
    program = icgd.compile(case.network, icgd.SGD(lr=case.lr), dtype=torch.float32)
    X, Y = data(case, 1, n=8)
    ours, theirs = (
        program.run(X, Y, init=init(case, 1), executor=executor)
        for executor in ("structured", "dense")
    )
    assert ours.near_kink.count == 0
    size = max(float(t.abs().max()) for t in tensors(theirs.weights))
    per_round = 2 * program.certificate.sup_error / program.radius
    assert 0 < distance(ours.weights, theirs.weights) <= 8 * 4 * per_round * size


# -- exact zeros ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=by_name)
def test_zero_stays_exactly_zero(options):
    """Inputs that are zero move no weight by a single bit, in the structured executor."""
    case = BY_NAME["no_bias"]
    X, Y = data(case, 0, n=10)
    X[:, 1] = 0.0
    start = init(case, 0)
    run = compiled(case, options).run(X, Y, init=start)
    (before, _), (after, _) = start[0], run.weights[0]
    assert torch.equal(before[:, 1], after[:, 1])
    assert not torch.equal(before[:, 0], after[:, 0])
    nothing = compiled(case, options).run(torch.zeros_like(X), Y, init=start)
    assert identical(nothing.weights, start)


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_a_unit_that_never_opens_learns_nothing(executor):
    case = BY_NAME["mixed"]
    X, Y = data(case, 0, n=10)
    start = init(case, 0)
    start[0][1][2] = -100.0
    run = compiled(case).run(X, Y, init=start, executor=executor)
    for before, after in zip(start[0], run.weights[0], strict=True):
        assert torch.equal(before[2], after[2])
    gap = (start[1][0][:, 2] - run.weights[1][0][:, 2]).abs().max()
    assert float(gap) <= (0.0 if executor == "structured" else 1e-14)


@pytest.mark.parametrize("options", OPTIONS, ids=by_name)
@pytest.mark.parametrize("name", ["bottleneck", "mixed", "deep", "relu_output"])
def test_padded_rows_are_exactly_zero_and_padded_columns_drift_by_rounding(name, options):
    case = BY_NAME[name]
    X, Y = data(case, 0, n=8)
    run = compiled(case, options).run(X, Y, init=init(case, 0), executor="dense", record="trace")
    for entry in run.trace:
        kind, layer = entry.step.writes
        d_in, d_out = case.widths[layer - 1], case.widths[layer]
        slots = entry.block.slots
        assert not slots["out"][d_out:].any()
        assert not slots["weight"][d_out:].any()
        assert not slots["bias"][d_out:].any()
        assert float(slots["weight"][:, d_in:].abs().sum()) <= 1e-13
        assert float(slots["inp"][d_in:].abs().sum()) <= (
            0.0 if kind == "F" and layer == 1 else 1e-13
        )


# -- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("options", [DEFAULT, HARD], ids=by_name)
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_a_batch_is_its_problems_one_by_one(case, options, executor):
    program = compiled(case, options)
    X, Y = (t / 2 for t in data(case, 3, n=6, batch=(3,)))
    start = init(case, 3, n_problems=3)
    together = program.run(X, Y, init=start, executor=executor)
    use, blocks = [], 0
    for i in range(3):
        own = [(W[i], None if b is None else b[i]) for W, b in start]
        alone = program.run(X[i], Y[i], init=own, executor=executor)
        mine = [(W[i], None if b is None else b[i]) for W, b in together.weights]
        size = max(1.0, max(float(t.abs().max()) for t in tensors(alone.weights)))
        assert distance(alone.weights, mine) <= AGREE * size
        use.append(alone.range_use)
        blocks = alone.cost.blocks
        assert together.cost.dense_flops == 3 * alone.cost.dense_flops
        assert together.cost.structured_flops == 3 * alone.cost.structured_flops
    assert together.cost.blocks == blocks
    assert math.isclose(together.range_use, max(use), rel_tol=1e-9)


def test_a_batch_of_one_is_a_batch():
    case = BY_NAME["mixed"]
    X, Y = data(case, 0, n=5, batch=(1,))
    run = compiled(case).run(X, Y, init=init(case, 0, n_problems=1))
    assert run.weights[0][0].shape == (1, 3, 4)


# -- storage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("options", OPTIONS, ids=by_name)
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_running_in_place_changes_no_bit(case, options, batch):
    """A trace forbids overwriting old blocks; the numbers must not notice."""
    X, Y = data(case, 1, n=10, batch=batch)
    start = init(case, 1, n_problems=batch[0] if batch else None)
    program = compiled(case, options)
    quick = program.run(X, Y, init=start)
    kept = program.run(X, Y, init=start, record="trace")
    assert identical(quick.weights, kept.weights)
    last = {entry.step.writes: entry.block for entry in kept.trace}
    for layer, (W, _) in enumerate(kept.weights, 1):
        assert torch.equal(last[("B", layer)].slots["weight"], W)


def test_a_trace_keeps_the_weights_of_every_round():
    case = BY_NAME["mixed"]
    X, Y = data(case, 1, n=6)
    start = init(case, 1)
    program = compiled(case)
    trace = program.run(X, Y, init=start, record="trace").trace
    history = program.run(X, Y, init=start, record="weights").history
    for entry in trace:
        kind, layer = entry.step.writes
        if kind == "B":
            assert torch.equal(entry.block.slots["weight"], history[entry.round - 1][layer - 1][0])


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("name", ["scalar", "mixed", "no_bias"])
def test_the_callers_tensors_are_never_touched(name, batch, executor):
    case = BY_NAME[name]
    X, Y = data(case, 0, n=5, batch=batch)
    start = init(case, 0, n_problems=batch[0] if batch else None)
    kept = (X.clone(), Y.clone(), copied(start))
    program = compiled(case)
    run = program.run(X, Y, init=start, executor=executor, epochs=2)
    again = program.run(X, Y, init=run.weights, executor=executor)
    run.predict(X)
    assert torch.equal(X, kept[0])
    assert torch.equal(Y, kept[1])
    assert identical(start, kept[2])
    assert identical(
        program.run(X, Y, init=start, executor=executor, epochs=2).weights, run.weights
    )
    assert not identical(again.weights, run.weights), "a finished run's weights can start another"


def test_trainable_initial_weights_may_be_passed():
    case = BY_NAME["mixed"]
    X, Y = data(case, 0, n=4)
    start = init(case, 0)
    trainable = [(torch.nn.Parameter(W.clone()), torch.nn.Parameter(b.clone())) for W, b in start]
    program = compiled(case)
    run = program.run(X, Y, init=trainable)
    assert identical(run.weights, program.run(X, Y, init=start).weights)
    assert identical(trainable, start)
    assert not any(t.requires_grad for t in tensors(run.weights))


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("name", ["scalar", "mixed", "deep"])
def test_the_number_of_live_blocks_does_not_grow(name, executor):
    case = BY_NAME[name]
    X, Y = data(case, 0, n=6)
    start = init(case, 0)
    program = compiled(case)
    short = program.run(X[:1], Y[:1], init=start, executor=executor).cost
    long = program.run(X, Y, init=start, executor=executor, epochs=3).cost
    assert short.live_blocks_max == long.live_blocks_max == 2 * case.n_layers + 2
    assert long.blocks == 18 * short.blocks


# -- mask rules -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blindfold:
    """The mask of two layers with one step looking where nothing is."""

    reads: tuple

    def steps(self):
        first, *rest = DynamicMask(2).steps()
        return (first, Step("forward", ("F", 2), self.reads), *rest[1:])

    def forward_steps(self):
        return self.steps()[:2]


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_a_mask_that_reads_a_missing_block_is_an_error_that_names_it(executor):
    case = BY_NAME["no_bias"]
    program = icgd.compile(case.network, icgd.SGD(lr=0.1))
    program.mask = Blindfold((("F", 1), ("B", 9)))
    X, Y = data(case, 0, n=2)
    message = r"Step forward .* sees block \('B', 9\), which the prompt does not hold"
    with pytest.raises(AssumptionViolated, match=message):
        program.run(X, Y, init=init(case, 0), executor=executor)


# -- altered weights ------------------------------------------------------------------------------

SMALL = {
    "padded": icgd.Network((2, 1, 3, 2)),
    "square": icgd.Network((2, 2, 2, 2)),
    "relu_output": icgd.Network((2, 3, 2), output="relu", bias=False),
}


def kind_of(name):
    """What a parameter is for, from its name."""
    for kind, mark in (
        ("grid", "attention.levels attention.linear attention.quadratic"),
        ("spread", "attention.spread"),
        ("query", ".query. .query_one"),
        ("key", ".key_"),
        ("value", ".value."),
        ("output", ".output."),
        ("flags", ":raise :mark linear>linear"),
        ("gates", "step.pre."),
        ("activation", "parts.activation"),
        ("closed", "parts.closed"),
        ("skips", "post.skips"),
        ("constants", "post.constants"),
    ):
        if any(part in name for part in mark.split()):
            return kind
    raise AssertionError(f"a parameter of an unknown kind: {name}")


KINDS = [
    "grid",
    "spread",
    "query",
    "key",
    "value",
    "output",
    "flags",
    "gates",
    "activation",
    "closed",
    "skips",
    "constants",
]


def outcome(program, X, Y, start, executor, **kwargs):
    """The flattened weights of a run, or None where it was refused."""
    try:
        run = program.run(X, Y, init=start, executor=executor, **kwargs)
    except AssumptionViolated:
        return None
    return torch.cat([t.reshape(-1) for t in tensors(run.weights)])


def example(network, n=2):
    generator = torch.Generator().manual_seed(5)
    d_in, d_out = network.widths[0], network.widths[-1]
    X, Y = normal(generator, n, d_in), normal(generator, n, d_out)
    start = [
        (normal(generator, *W.shape).abs() / 2, None if b is None else normal(generator, *b.shape))
        for W, b in network.init(0)
    ]
    return X, Y, start


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["padded", "relu_output"])
def test_altered_weights_alter_both_executors_alike(shape, kind):
    """One entry of one parameter changed: the structured result changes as the dense one does.

    Were the structured executor a plain SGD loop beside the weights, nothing would change in it.
    """
    network = SMALL[shape]
    program = icgd.compile(network, icgd.SGD(lr=0.05), radius=256.0)
    X, Y, start = example(network)
    untouched = outcome(program, X, Y, start, "dense")
    parameters = [(n, p) for n, p in program.named_parameters() if kind_of(n) == kind]
    if not parameters:
        pytest.skip(f"no weights of kind {kind} in this network")
    generator = torch.Generator().manual_seed(0)
    wrong, visible = [], 0
    # Many gates are alike: a random third of them, a few entries of everything else.
    tries = 3 if len(parameters) < 12 else 1
    factors = torch.tensor([1.25, 0.5, 0.0, 0.999], dtype=torch.float64).repeat(100)
    for i, (name, parameter) in enumerate(parameters * tries):
        if kind == "gates" and torch.rand(1, generator=generator) > 0.34:
            continue
        entries = parameter.data.view(-1)
        at = int(torch.randint(len(entries), (1,), generator=generator))
        before = float(entries[at])
        entries[at] = after = before * float(factors[i + i // len(parameters)])
        ours = attempt(outcome, program, X, Y, start, "structured")
        theirs = attempt(recorded_outcome, program, X, Y, start)
        entries[at] = before
        if ours is not None and theirs is DECIDED_BY_ROUNDING:
            continue
        label = f"{name}[{at}] {before:g} -> {after:g}"
        if isinstance(ours, str) or (ours is None) != (theirs is None):
            wrong.append(f"{label}: {ours!r:.120} / {theirs!r:.60}")
        elif ours is not None and (gap := relative_gap(theirs, ours)) > AGREE:
            wrong.append(f"{label}: differ by {gap:.2g}")
        if theirs is None or relative_gap(untouched, theirs) > 1e-6:
            visible += 1
    assert not wrong, f"{len(wrong)} alterations:\n" + "\n".join(wrong[:20])
    assert visible or kind in ("gates", "closed"), "no alteration could be seen: the test is blind"


DECIDED_BY_ROUNDING = torch.zeros(0)
"""Instead of an outcome, where some `closed` fell below 0: gates then add and subtract C."""


def recorded_outcome(program, X, Y, start):
    """The outcome of the literal matrices."""
    try:
        run = program.run(X, Y, init=start, executor="dense", record="trace")
    except AssumptionViolated:
        return None
    if any(bool((entry.block.slots["closed"] < 0).any()) for entry in run.trace):
        return DECIDED_BY_ROUNDING
    return torch.cat([t.reshape(-1) for t in tensors(run.weights)])


def attempt(work, *arguments):
    """An outcome, or what crashed; a crash is never the right answer."""
    try:
        return work(*arguments)
    except (RuntimeError, KeyError, AssertionError, TypeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("shape", SMALL)
def test_many_altered_weights_alter_both_executors_alike(shape, batch):
    """Every weight of heads and skips scaled by its own factor near one, alone and in batches."""
    network = SMALL[shape]
    program = icgd.compile(network, icgd.SGD(lr=0.05), radius=256.0)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in program.named_parameters():
        if (
            kind_of(name) in ("spread", "query", "key", "value", "output", "skips")
            and parameter.dim()
        ):
            parameter.data *= 1 + 0.01 * normal(generator, *parameter.shape)
    X, Y, start = example(network)
    if batch:
        X, Y = (torch.stack([t, t.flip(0)]) for t in (X, Y))
        start = [tuple(None if t is None else torch.stack([t, t]) for t in pair) for pair in start]
    ours, theirs = (attempt(outcome, program, X, Y, start, e) for e in ("structured", "dense"))
    assert not isinstance(ours, str), ours
    assert relative_gap(theirs, ours) <= AGREE


def test_a_plan_made_before_an_alteration_is_not_used_after_it():
    """The weights that are in the parameters when `run` is called are the weights that run."""
    network = SMALL["square"]
    program = icgd.compile(network, icgd.SGD(lr=0.05), radius=256.0)
    X, Y, start = example(network)
    before = outcome(program, X, Y, start, "structured")
    program.step.attention.banks["inputs"].output["delta>weight_backward"].data *= 2.0
    after = outcome(program, X, Y, start, "structured")
    doubled = icgd.compile(network, icgd.SGD(lr=0.1), radius=256.0)
    doubled.step.post.skips["delta>bias"].coef.data.fill_(-0.05)
    assert relative_gap(before, after) > 1e-3
    assert relative_gap(outcome(doubled, X, Y, start, "dense"), after) <= AGREE


def test_wrongly_named_executors_are_refused():
    case = BY_NAME["scalar"]
    X, Y = data(case, 0, n=1)
    with pytest.raises(icgd.InvalidParameter, match="`executor` must be 'structured' or 'dense'"):
        compiled(case).run(X, Y, init=init(case, 0), executor="fast")
