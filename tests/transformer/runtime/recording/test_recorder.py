"""What a recording says is what happened: blocks, masks, gates, heads, exact values, within its budget."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from traced_programs import PROGRAMS, case

import icgd
from icgd.transformer.mask_rules import DynamicMask
from icgd.transformer.trace.file import complaints


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_trace_is_whole_and_survives_a_file(name, tmp_path):
    """Every reference leads somewhere, and a trace read back is the trace."""
    trace = case(name).record()
    assert not list(complaints(trace))
    trace.save(tmp_path / "trace.json")
    assert icgd.Trace.load(tmp_path / "trace.json") == trace
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_recording_changes_nothing(name):
    """Weights of a recorded run are bit-identical to those of a run with record="trace"."""
    run = case(name)
    recorder = icgd.Recorder(heads=3, which=(0,))
    ours, plain = run.run(record=recorder), run.run(record="trace")
    for a, b in zip(_tensors(ours.weights), _tensors(plain.weights), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step_names_its_mask_and_writes_the_block_of_the_run(name):
    """Steps see the blocks of the mask rule, and hold what record="trace" keeps."""
    run = case(name)
    trace, kept = run.record(), run.run(record="trace").trace
    numbers = trace.numbers()
    assert len(trace.steps) == len(kept)
    for step, entry in zip(trace.steps, kept, strict=True):
        told = trace.schedule[step.place]
        assert (told.kind, tuple(told.writes)) == (entry.step.kind, entry.step.writes)
        seen = [(trace.blocks[i].kind, trace.blocks[i].layer) for i in step.reads]
        if trace.program.construction == "linear_attention_cot":
            # One block of data, then one token a round: all of them are seen.
            assert seen == [("H", 0)] * step.round
        else:
            assert seen == [tuple(address) for address in told.reads]
        block = trace.blocks[step.writes]
        assert (block.kind, block.layer, block.round) == (*entry.step.writes, step.round)
        for slot in run.program.layout:
            value = entry.block.value(slot.name)
            value = value if isinstance(value, torch.Tensor) else torch.tensor(float(value))
            if trace.program.construction == "linear_attention_cot":
                value = value[-1:]
            told_value = numbers(block.slots.get(slot.name, 0.0))
            shown = value[: block.shown] if slot.each and value.dim() else value
            assert np.array_equal(
                np.broadcast_to(told_value, shown.shape), shown.double().numpy()
            ), slot.name


def test_the_blocks_a_network_step_sees_are_the_latest_ones():
    """F_1 of round r sees B_1 of round r - 1 and X of round r, and so on (Definition 4.4)."""
    trace = case("network").record()
    for step in trace.steps:
        told = DynamicMask(3).steps()[step.place]
        for address, i in zip(told.reads, step.reads, strict=True):
            block = trace.blocks[i]
            written_before = address[0] == "B" and told.kind in ("x", "forward")
            assert (block.kind, block.layer) == address
            assert block.round == step.round - written_before
            assert block.origin == (
                "arrival" if address[0] in "XY" else "prompt" if block.round == 0 else "step"
            )


def test_the_gates_that_open_are_those_of_the_step():
    """In pre, gates of the step's own kind open and no others; shut ones wrote exactly nothing."""
    trace = case("network").record()
    gates = trace.stages[0].gates
    for step in trace.steps:
        kind = trace.schedule[step.place].kind
        opened = {
            name.split(":")[0]
            for name, bit in zip(gates, step.stages[0].open, strict=True)
            if bit == "1"
        }
        assert opened == {kind}
        assert f"{kind}:raise" in gates


def test_heads_ask_what_the_layer_multiplies():
    """In a forward step heads ask for o_{i-1}; what they read multiplies W, and z = W o + b."""
    trace = case("network").record()
    numbers = trace.numbers()
    for step in trace.steps:
        if trace.schedule[step.place].kind != "forward":
            continue
        block = trace.blocks[step.writes]
        (heads,) = step.stages[1].heads
        assert heads.bank == "attention.inputs"
        assert np.array_equal(numbers(heads.asked), numbers(block.slots["inp"]))
        z = numbers(block.slots["weight"]) @ numbers(heads.read) + numbers(block.slots["bias"])
        assert np.abs(z - numbers(step.stages[1].slots["z"])).max() <= 1e-15 * (1 + np.abs(z).max())


@pytest.mark.parametrize("name", ["network", "lasso", "logistic", "loop", "newton"])
def test_attention_over_the_grid_is_softmax_and_averages_to_what_is_read(name):
    """Recorded weights are a softmax of the stored grid, and their mean value is what the head read."""
    trace = case(name).record()
    numbers, grids = trace.numbers(), {g.bank: g for g in trace.grids}
    seen = 0
    for step in trace.steps:
        for heads in (h for stage in step.stages for h in stage.heads if h.over == "grid"):
            if heads.weights is None:
                continue
            grid, weights = grids[heads.bank], numbers(heads.weights).astype(float)
            asked = numbers(heads.asked)[heads.heads]
            score = asked[:, None] * numbers(grid.linear) + numbers(grid.offset)
            want = np.exp(score - score.max(axis=1, keepdims=True))
            want /= want.sum(axis=1, keepdims=True)
            assert np.abs(weights - want).max() < 1e-6  # stored in single precision
            read = numbers(heads.read)[heads.heads]
            values = numbers(grid.values)
            assert np.abs(want @ values - read).max() <= 1e-13 * np.abs(values).max()
            seen += 1
    assert seen


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("stack", "tanh_stack")])
def test_exact_values_are_those_of_an_exact_optimizer(name):
    """Differences are as small as the error of the whole run is known to be, and not all zero by default."""
    trace = case(name).record()
    numbers = trace.numbers()
    away = [np.abs(numbers(v)) for b in trace.blocks if b.origin == "step" for v in b.away.values()]
    error = numbers(trace.curves.error)
    assert error.max() < (1e-8 if name == "sym" else 1e-12)
    if away:
        assert max(np.nanmax(a) for a in away) < (1e-7 if name == "sym" else 1e-11)


def test_the_error_curve_is_the_verifiers():
    """The largest difference of any round is `icgd.verify`'s max_error."""
    run = case("network")
    numbers = (trace := run.record()).numbers()
    check = icgd.verify(run.program, run.X, run.Y, **run.options)
    assert float(numbers(trace.curves.error).max()) == check.max_error
    assert float(numbers(trace.curves.range_use).max()) == check.run.range_use


def test_exact_values_of_a_wrong_program_are_away():
    """Exact values do not come from the program: with another step size the difference shows."""
    run = case("network")
    wrong = icgd.compile(run.problem, icgd.SGD(lr=run.lr * 1.5))
    wrong.optimizer = icgd.SGD(lr=run.lr)
    trace = icgd.record_trace(wrong, run.X, run.Y, **run.options)
    assert float(trace.numbers()(trace.curves.error).max()) > 1e-3


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_both_executors_tell_the_same_story(executor):
    """Gates, queries and blocks of the literal matrices are those of the structured executor."""
    run = case("network")
    ours, theirs = run.record(), run.record(executor=executor)
    a, b = ours.numbers(), theirs.numbers()
    for mine, other in zip(ours.steps, theirs.steps, strict=True):
        assert mine.reads == other.reads
        assert [s.open for s in mine.stages] == [s.open for s in other.stages]
        told = {x.bank: b(x.asked) for x in other.stages[1].heads}
        for x in mine.stages[1].heads:
            asked = a(x.asked)
            assert np.abs(asked - told.pop(x.bank)[: asked.size]).max() < 1e-12
        # Literal heads always ask; those that have nothing to do ask for zero.
        assert not any(np.any(asked) for asked in told.values())


def test_of_many_problems_the_first_is_recorded():
    run = case("network")
    both = torch.stack([run.X, -run.X]), torch.stack([run.Y, run.Y + 1])
    init = [(torch.stack([W, W]), torch.stack([b, b])) for W, b in run.options["init"]]
    trace = icgd.record_trace(run.program, *both, init=init)
    alone = run.record()
    numbers, want = trace.numbers(), alone.numbers()
    last, single = trace.blocks[trace.steps[-1].writes], alone.blocks[alone.steps[-1].writes]
    assert np.abs(numbers(last.slots["weight"]) - want(single.slots["weight"])).max() < 1e-13
    assert any("2 problems" in note for note in trace.notes)


# -- budget ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0.3, 0.6, 5.0])
def test_the_budget_is_kept_and_used(budget, tmp_path):
    """The file stays below the budget; first and last round are always there; curves are complete."""
    net = icgd.Network((6, 8, 8, 1))
    program = icgd.compile(net, icgd.SGD(lr=0.01))
    X = torch.randn(100, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    trace = icgd.record_trace(
        program, X, X[:, :1], init=net.init(seed=0), epochs=3, budget_mb=budget
    )
    trace.save(tmp_path / "trace.json")
    size = (tmp_path / "trace.json").stat().st_size
    assert size <= budget * 1e6
    assert trace.n_rounds == 300
    assert trace.rounds[0] == 1
    assert trace.rounds[-1] == 300
    assert trace.curves.error[2:] == [300]
    if budget < 5:
        assert len(trace.rounds) < 300
        assert any("rounds are kept in detail" in note for note in trace.notes)
        assert size >= 0.4 * budget * 1e6
    else:
        assert len(trace.rounds) == 300


@pytest.mark.parametrize("name", ["loop", "linear_attention", "lasso", "newton"])
@pytest.mark.parametrize("budget", [0.1, 0.2])
def test_rounds_kept_are_spread_to_the_end(name, budget, tmp_path):
    """Whatever the program: within the budget, most of it used, and no long stretch left out."""
    run, n = case(name), 500
    trace = icgd.record_trace(run.program, run.X, run.Y, steps=n, budget_mb=budget)
    trace.save(tmp_path / "trace.json")
    size = (tmp_path / "trace.json").stat().st_size
    assert size <= budget * 1e6
    assert size >= 0.4 * budget * 1e6 or len(trace.rounds) == n
    assert trace.rounds[-1] == n
    assert np.diff(trace.rounds).max() <= n / 10


def test_rounds_asked_for_must_fit():
    run = case("network")
    with pytest.raises(icgd.InvalidParameter, match=r"budget_mb.*hold the rounds asked for"):
        icgd.record_trace(
            run.program, run.X, run.Y, **run.options, rounds=range(1, 13), budget_mb=0.08
        )


def test_a_run_that_is_interrupted_leaves_its_finished_rounds(tmp_path):
    """What was recorded until then can be saved and read."""
    run, recorder = case("network"), icgd.Recorder(exact=_Interrupting(5))
    with pytest.raises(KeyboardInterrupt):
        run.run(record=recorder)
    trace = recorder.trace()
    trace.save(tmp_path / "t.json")
    assert icgd.Trace.load(tmp_path / "t.json") == trace
    assert trace.n_rounds == 4
    assert "The run stopped after 4 of 12 rounds." in trace.notes


def test_a_run_that_leaves_its_range_can_be_looked_at(tmp_path):
    net, recorder = icgd.Network((2, 4, 1)), icgd.Recorder()
    program, X = icgd.compile(net, icgd.SGD(lr=3.0)), 10 * case("network").X
    with pytest.raises(icgd.AssumptionViolated):
        program.run(X, X[:, :1], init=net.init(seed=0), record=recorder)
    recorder.trace().save(tmp_path / "t.json")
    assert icgd.Trace.load(tmp_path / "t.json").rounds


class _Interrupting:
    """Stands for Ctrl-C in the middle of a round."""

    loss_title = "loss"

    def __init__(self, round_):
        self.last, self.now = round_, 0

    def begin_round(self, round_):
        self.now = round_

    def block(self, step):
        if self.now == self.last and step.kind == "y":
            raise KeyboardInterrupt
        return {}

    def numbers(self, weights):
        from icgd.transformer.runtime.recording.recorder import RoundNumbers

        return RoundNumbers()


def test_what_the_layer_failed_to_write_is_away():
    """A gate removed: the slot is zero, and its distance to the exact value is told, not hidden."""
    run = case("network")
    broken = icgd.compile(run.problem, icgd.SGD(lr=run.lr))
    del broken.step.pre.parts["x:top/weight>weight_forward"]
    trace = icgd.record_trace(broken, run.X, run.Y, **run.options)
    numbers = trace.numbers()
    first = trace.blocks[trace.steps[0].writes]
    weight = run.options["init"][0][0].numpy()
    assert np.allclose(numbers(first.away["weight"]), -weight)
    assert not np.any(numbers(first.slots["weight"]))


def test_large_differences_are_told_in_full():
    """Nearest-token heads are far off: value minus difference is still the exact value."""
    X, y = case("ridge").X, case("ridge").Y
    problem = icgd.Ridge(2, 0.1)
    program = icgd.compile(problem, icgd.GD(0.1), temperature="hard", n_grid=64, radius=8.0)
    trace = icgd.record_trace(program, X, y, steps=3)
    numbers = trace.numbers()
    from icgd.oracle import gd_steps

    path = gd_steps(problem, torch.zeros(2, dtype=torch.float64), X, y, 0.1)
    for step in trace.steps:
        block = trace.blocks[step.writes]
        told = numbers(block.slots["weight"]) - numbers(block.away["weight"])
        assert np.abs(told - next(path).numpy()).max() < 1e-15


def test_rounds_apart_are_complete():
    """A round recorded alone shows the blocks it read, with every slot the round before wrote."""
    run = case("network")
    alone = icgd.record_trace(run.program, run.X, run.Y, **run.options, rounds=[1, 5, 9])
    whole = run.record()
    assert alone.rounds == [1, 5, 9]
    a, b = alone.numbers(), whole.numbers()
    theirs = {(s.round, s.place): s for s in whole.steps}
    for step in alone.steps:
        twin = theirs[step.round, step.place]
        for i, j in zip((*step.reads, step.writes), (*twin.reads, twin.writes), strict=True):
            mine, other = alone.blocks[i], whole.blocks[j]
            for slot in {*mine.slots, *other.slots}:  # a slot that is left out is zero
                apart = a(mine.slots.get(slot, 0.0)) - b(other.slots.get(slot, 0.0))
                assert np.abs(apart).max() < 1e-13


def test_whatever_the_budget_a_recording_can_be_opened(monkeypatch, tmp_path):
    """Readers refuse a pool of more than so many bytes: a recorder with a large budget stops before."""
    net = icgd.Network((4, 6, 1))
    program = icgd.compile(net, icgd.SGD(lr=0.01))
    X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def recorded() -> icgd.Trace:
        return icgd.record_trace(
            program, X, X[:, :1], init=net.init(seed=0), epochs=3, budget_mb=10_000
        )

    def unfolded(trace: icgd.Trace) -> int:
        return max(8 * trace.arrays["f8"].count, 4 * trace.arrays["f4"].count)

    most = unfolded(recorded()) // 2
    for module in ("transformer.trace.arrays", "transformer.runtime.recording.recorder"):
        monkeypatch.setattr(f"icgd.{module}.LARGEST_UNFOLDED", most)
    trace = recorded()
    assert 0.4 * most < unfolded(trace) <= most
    assert trace.rounds[0] == 1
    assert trace.rounds[-1] == trace.n_rounds == 180
    trace.save(tmp_path / "trace.json")
    assert icgd.Trace.load(tmp_path / "trace.json") == trace
    assert any("rounds are kept in detail" in note for note in trace.notes)


def test_curves_that_no_reader_would_unfold_are_refused_after_two_rounds():
    net = icgd.Network((2, 2, 1))
    program, done = icgd.compile(net, icgd.SGD(lr=0.01)), []
    X = torch.rand(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with pytest.raises(icgd.TooLarge, match=r"200,000,000 rounds holds more than 537 MB"):
        program.run(
            X,
            X[:, :1],
            init=net.init(seed=0),
            epochs=10**7,
            record=icgd.Recorder(budget_mb=10**6),
            progress=lambda now, _: done.append(now),
        )
    assert len(done) <= 2


def test_a_budget_too_small_for_two_rounds_is_refused():
    run = case("network")
    with pytest.raises(icgd.InvalidParameter, match=r"budget_mb.*hold two rounds.*Raise it"):
        icgd.record_trace(run.program, run.X, run.Y, **run.options, budget_mb=0.01)


def test_curves_too_long_for_the_budget_are_called_that():
    run = case("network")
    options = {**run.options, "epochs": 10**7}
    with pytest.raises(
        icgd.InvalidParameter, match=r"the curves of [\d,]+0,000.*record fewer rounds"
    ):
        icgd.record_trace(run.program, run.X, run.Y, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget_mb": 0}, "budget_mb"),
        ({"budget_mb": float("nan")}, "budget_mb"),
        ({"heads": -1}, "heads"),
        ({"tokens": 0}, "tokens"),
        ({"rounds": [0]}, "rounds"),
        ({"rounds": []}, "rounds"),
        ({"rounds": [10_000]}, "rounds"),
        ({"rounds": 5}, "rounds"),
        ({"rounds": ["a"]}, "rounds"),
        ({"which": [-1]}, "which"),
        ({"which": 5}, "which"),
        ({"heads": 1.5}, "heads"),
        ({"tokens": 2.5}, "tokens"),
        ({"budget_mb": "a"}, "budget_mb"),
    ],
)
def test_bad_options_are_refused(options, message):
    run = case("network")
    with pytest.raises(icgd.InvalidParameter, match=message):
        run.run(record=icgd.Recorder(**options))


def test_the_class_is_no_recorder():
    with pytest.raises(icgd.InvalidParameter, match=r"icgd\.Recorder"):
        case("network").run(record=icgd.Recorder)


def test_nothing_recorded_is_said():
    with pytest.raises(icgd.AssumptionViolated, match="Nothing was recorded"):
        icgd.Recorder().trace()


def test_a_recorder_can_be_used_again():
    run, recorder = case("lasso"), icgd.Recorder()
    run.run(record=recorder)
    first = recorder.trace()
    run.run(record=recorder)
    assert recorder.trace() == first


def test_tracing_off_leaves_the_fast_path(monkeypatch):
    """Without a recorder no step is made one by one and nothing is explained."""
    from icgd.transformer.runtime.executors.chain import StructuredExecutor

    def refuse(*args, **kwargs):
        raise AssertionError("the slow path was taken")

    monkeypatch.setattr(StructuredExecutor, "step", refuse)
    monkeypatch.setattr(StructuredExecutor, "explain", refuse)
    case("network").run()


def test_the_file_is_strict_json_without_defaults(tmp_path):
    trace = case("loop").record()
    trace.save(tmp_path / "t.json")
    text = (tmp_path / "t.json").read_text()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["format"] == "icgd-trace/1"
    assert all("tokens" not in b or b["tokens"] > 1 for b in content["blocks"])


def _tensors(weights):
    if isinstance(weights, torch.Tensor):
        return [weights]
    return [t for pair in weights for t in pair if t is not None]


@pytest.mark.slow
@pytest.mark.parametrize(("epochs", "all_kept"), [(1, True), (10, False)])
def test_six_layers_two_hundred_and_two_thousand_rounds(epochs, all_kept, tmp_path):
    """2,400 steps fit into 15 MB; of 2,000 rounds as many as the default budget of 14 MB holds."""
    net = icgd.Network((20,) * 7)
    program = icgd.compile(net, icgd.SGD(lr=0.001))
    X, Y = torch.randn(2, 200, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    trace = icgd.record_trace(program, X, Y, init=net.init(seed=0), epochs=epochs)
    trace.save(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_size < 14e6
    assert (len(trace.rounds) == 200 * epochs) == all_kept
    assert len(trace.steps) == 12 * len(trace.rounds)
    assert len(trace.rounds) >= 200
