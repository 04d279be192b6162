"""Out of range is never silent: what was asked, where, when, and which radius would have done."""

from __future__ import annotations

import math
import re

import pytest
import torch
from cases import BY_NAME, compiled, data, init

import icgd
from icgd.errors import AssumptionViolated
from icgd.transformer.runtime.watch import KinkReport, RangeWatch, Watched

F64 = torch.float64
EXECUTORS = pytest.mark.parametrize("executor", ["structured", "dense"])
SENTENCE = re.compile(
    r"(Head (?P<head>\S+)|A closed unit) met \|s\| = (?P<value>\S+) at slot "
    r"(?P<slot>[\w+]+)\[(?P<unit>\d+)\] \((?P<place>\w+) step, layer (?P<layer>\d+)\) "
    r"in round (?P<round>\d+), outside its certified range \[-(?P<low>\S+), (?P<high>\S+)\]\. "
    r"(?P<remedy>.+)"
)


def vec(*values):
    return torch.tensor(values, dtype=F64)


def two_layers(radius=64.0, **network):
    """(1, 1, 1), whose every number can be worked out in the head."""
    net = icgd.Network((1, 1, 1), **network)
    return icgd.compile(net, icgd.SGD(lr=0.001), radius=radius)


def weights(w1, b1, w2, b2):
    return [(vec([w1]), vec(b1)), (vec([w2]), vec(b2))]


def complaint(call):
    with pytest.raises(AssumptionViolated) as caught:
        call()
    found = SENTENCE.fullmatch(str(caught.value))
    assert found, str(caught.value)
    return found


# -- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["X", "Y"])
@pytest.mark.parametrize("value", [64.5, -1e6])
def test_data_out_of_range_is_refused_with_the_radius_to_recompile_with(name, value):
    rows = {"X": torch.zeros(3, 1, dtype=F64), "Y": torch.zeros(3, 1, dtype=F64)}
    rows[name][2] = value
    with pytest.raises(AssumptionViolated, match=f"`{name}` holds a value of size") as caught:
        two_layers().run(**rows, init=weights(1, 0, 1, 0))
    message = str(caught.value)
    assert "certified range [-64, 64]" in message
    wanted = float(re.search(r"radius >= (\S+?)\.?$", message).group(1))
    two_layers(radius=1.0001 * wanted).run(**rows, init=weights(1, 0, 1, 0))


@EXECUTORS
def test_the_edge_itself_is_in_range(executor):
    run = two_layers().run(vec([64.0]), vec([64.0]), init=weights(1, 0, 1, 0), executor=executor)
    assert run.range_use == 1.0


# -- heads ----------------------------------------------------------------------------------------


@EXECUTORS
def test_an_activation_out_of_range(executor):
    """o_1 = 10 * 8 = 80 is asked by the heads of the second layer's forward step."""
    program = two_layers()
    found = complaint(
        lambda: program.run(vec([8.0]), vec([0.0]), init=weights(10, 0, 0.1, 0), executor=executor)
    )
    assert found["head"] == "attention.inputs"
    assert found["place"] == "forward"
    assert math.isclose(float(found["value"]), 80.0, rel_tol=1e-5)
    assert (found["unit"], found["round"], found["low"], found["high"]) == ("1", "1", "64", "64")
    wanted = float(re.search(r"Recompile with radius >= (\S+),", found["remedy"]).group(1))
    assert wanted >= 80.0
    two_layers(radius=wanted).run(
        vec([8.0]), vec([0.0]), init=weights(10, 0, 0.1, 0), executor=executor
    )


@EXECUTORS
def test_an_error_signal_out_of_range(executor):
    """delta_2 = 40 - (-40) = 80 is asked by the heads of the y step."""
    program = two_layers()
    found = complaint(
        lambda: program.run(vec([40.0]), vec([-40.0]), init=weights(1, 0, 1, 0), executor=executor)
    )
    assert (found["head"], found["place"]) == ("attention.signals", "y")
    assert (found["slot"], found["layer"]) == ("delta", "2")
    assert math.isclose(float(found["value"]), 80.0, rel_tol=1e-5)


@EXECUTORS
def test_a_signal_sent_down_out_of_range(executor):
    """delta_1 = W_2 delta_2 = 10 * 10 = 100 is asked by the heads of the backward step."""
    program = two_layers()
    found = complaint(
        lambda: program.run(vec([1.0]), vec([0.0]), init=weights(1, 0, 10, 0), executor=executor)
    )
    assert (found["head"], found["place"]) == ("attention.signals", "backward")
    assert math.isclose(float(found["value"]), 100.0, rel_tol=1e-5)


@EXECUTORS
@pytest.mark.parametrize("at", [1, 7, 64, 65, 130])
def test_the_round_is_the_one_in_which_it_happened(executor, at):
    """Ranges are checked many rounds at once; the complaint still names the first bad round."""
    X = torch.full((140, 1), 0.5, dtype=F64)
    X[at - 1 :] = 20.0
    program = icgd.compile(icgd.Network((1, 1, 1)), icgd.SGD(lr=1e-9), radius=64.0)
    found = complaint(
        lambda: program.run(X, 4 * X.clamp(max=1), init=weights(4, 0, 1, 0), executor=executor)
    )
    assert int(found["round"]) == at


@EXECUTORS
def test_the_unit_is_the_one_that_was_asked(executor):
    net = icgd.Network((2, 3, 1))
    program = icgd.compile(net, icgd.SGD(lr=0.01), radius=64.0)
    start = net.init(0)
    start[0] = (vec([1, 0], [0, 100], [0, 0]), vec(0, 0, 0))
    found = complaint(
        lambda: program.run(vec([1.0, 1.0]), vec([0.0]), init=start, executor=executor)
    )
    assert (found["place"], found["unit"]) == ("forward", "2")


@EXECUTORS
def test_one_bad_problem_of_a_batch_is_enough(executor):
    program = two_layers()
    start = [(torch.stack([W, W]), torch.stack([b, b])) for W, b in weights(10, 0, 0.1, 0)]
    X = torch.tensor([[[0.1]], [[8.0]]], dtype=F64)
    found = complaint(lambda: program.run(X, X, init=start, executor=executor))
    assert math.isclose(float(found["value"]), 80.0, rel_tol=1e-5)


@EXECUTORS
def test_predictions_are_watched_too(executor):
    program = two_layers()
    found = complaint(
        lambda: program.predict(vec([0.1], [8.0]), weights(10, 0, 0.1, 0), executor=executor)
    )
    assert found["place"] == "forward"
    assert found["round"] == "2"


@EXECUTORS
def test_training_that_blows_up_is_stopped(executor):
    case = BY_NAME["mixed"]
    program = icgd.compile(case.network, icgd.SGD(lr=1e3))
    X, Y = data(case, 0, n=40)
    found = complaint(lambda: program.run(X, Y, init=init(case, 0), executor=executor))
    assert "lower lr" in found["remedy"]


@EXECUTORS
def test_overflow_is_named_as_divergence(executor):
    found = complaint(
        lambda: two_layers().run(
            vec([60.0]), vec([0.0]), init=weights(1e307, 0, 1, 0), executor=executor
        )
    )
    assert found["value"] in ("inf", "nan")
    assert found["remedy"] == "Training diverged: lower lr or standardise the data."


def test_weights_beyond_the_gates_capacity_are_refused():
    """A weight of 1e9 with an input of 1e-9 keeps every head in range and still breaks an assumption."""
    start = weights(1e9, 0, 1, 0)
    with pytest.raises(
        AssumptionViolated, match=r"Weight W_1 reached size 1e\+09, above the gates'"
    ):
        two_layers().run(vec([1e-9]), vec([0.5]), init=start)


def test_both_executors_refuse_the_same_runs():
    """An output of 70 that misses its target by 30 asks no head for more than 64."""
    start = weights(1, 0, 1.75, 0)
    verdicts = []
    for executor in ("structured", "dense"):
        try:
            two_layers().run(vec([40.0]), vec([40.0]), init=start, executor=executor)
        except AssumptionViolated as error:
            verdicts.append(str(error))
        else:
            verdicts.append("ran")
    assert (verdicts[0] == "ran") == (verdicts[1] == "ran"), verdicts


@EXECUTORS
@pytest.mark.parametrize("output", ["linear", "relu"])
@pytest.mark.parametrize("size", [30.0, 63.0, 100.0, 127.0, 129.0, 200.0, 1e4, 1e8])
def test_an_output_of_any_size_is_trained_exactly_or_refused(executor, output, size):
    """The target is 60, the range 64: whatever the network puts out, silence means exactness."""
    net = icgd.Network((1, 1), output=output)
    program = icgd.compile(net, icgd.SGD(lr=1e-4), radius=64.0)
    start = [(vec([size / 32]), vec(0.0))]
    try:
        run = program.run(vec([32.0]), vec([60.0]), init=start, executor=executor)
    except AssumptionViolated:
        assert size > 64.0
        return
    exact = size / 32 - 1e-4 * (size - 60.0) * 32
    assert math.isclose(float(run.weights[0][0]), exact, rel_tol=1e-12)


@EXECUTORS
def test_range_use_is_the_largest_question_over_the_radius(executor):
    """x = 3, o_1 = 6, delta_2 = 12 - 2 = 10, delta_1 = 20: the largest question is 20."""
    run = two_layers().run(vec([3.0]), vec([2.0]), init=weights(2, 0, 2, 0), executor=executor)
    assert math.isclose(run.range_use, 20 / 64, rel_tol=1e-12)


# -- the watch by itself --------------------------------------------------------------------------


def watch(radius=4.0, slope=2.0**30, noise=0.0, every=64):
    return RangeWatch(radius, slope, lambda largest: noise, every=every)


def ask(w, round_, values, *, place="x", head="attention.inputs"):
    w.log_queries(round_, [Watched(label=head, place=place, layer=1, slot="q")], [values])


def meet(w, round_, z, *, layer=1):
    w.log_preactivations(
        round_, [Watched(label="preactivation", place="x", layer=layer, slot="z")], [z]
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_noticed_among_good_ones(bad):
    w = watch()
    ask(w, 1, vec(1.0, 2.0))
    ask(w, 2, vec(0.0, bad, 1.0), place="backward", head="attention.signals")
    found = complaint(w.flush)
    assert (found["head"], found["place"], found["unit"]) == ("attention.signals", "backward", "2")
    assert found["round"] == "2"
    assert found["remedy"].startswith("Training diverged")


def test_checks_come_in_batches_and_forget_what_was_good():
    w = watch(every=3)
    for round_ in (1, 2):
        ask(w, round_, vec(float(round_)))
        w.end_round()
    assert w.max_use == 0.0
    w.end_round()
    assert w.max_use == 0.5
    ask(w, 4, vec(1.0))
    w.flush()
    assert w.max_use == 0.5
    w.flush()
    assert w.max_use == 0.5


def test_the_recommended_radius_is_a_power_of_two_with_room():
    for value in (4.1, 5.0, 100.0, 1e6):
        w = watch()
        ask(w, 1, vec(value))
        remedy = complaint(w.flush)["remedy"]
        wanted = float(re.search(r"radius >= (\S+),", remedy).group(1))
        assert 1.2 * value <= wanted <= 2.6 * value


# -- kinks ----------------------------------------------------------------------------------------


def kinks(z, *, slope=2.0**30, noise=0.0):
    w = watch(slope=slope, noise=noise)
    meet(w, 5, z, layer=2)
    w.flush()
    return w.near_kink


def test_units_inside_the_ramp_are_counted():
    ramp = 2.0**-30
    found = kinks(vec(1.0, ramp / 2, -1.0, ramp / 4))
    assert found == KinkReport(2, (5, 2, 2))


def test_the_ends_of_the_ramp_are_not_inside():
    assert kinks(vec(0.0, 2.0**-30, -(2.0**-31))) == KinkReport(0, None)


def test_units_within_the_error_of_zero_are_counted_on_both_sides():
    found = kinks(vec(1.1e-6, -0.9e-6, 0.9e-6, -1.1e-6), noise=1e-6)
    assert found == KinkReport(2, (5, 2, 2))


def test_an_exact_zero_is_no_near_miss():
    """Nothing upstream was open and there is no bias: closed on both sides, whatever the error."""
    assert kinks(vec(0.0, 0.0), noise=1e-6).count == 0


def test_kinks_add_up_and_the_first_one_is_kept():
    w = watch(every=1)
    for round_, z in ((1, vec(1.0)), (2, vec(2.0**-31)), (3, vec(2.0**-32, 2.0**-32))):
        meet(w, round_, z)
        w.end_round()
    assert w.near_kink == KinkReport(3, (2, 1, 1))


def test_pre_activations_may_be_as_large_as_they_like():
    """Only questions to heads have a range; a closed unit may be closed by any amount."""
    w = watch()
    meet(w, 1, vec(-1e9))
    w.flush()
    assert w.max_use == 0.0


@EXECUTORS
def test_a_run_reports_the_kinks_it_met(executor):
    """Round 2 of three puts unit 2 of layer 1 at z = x - 1, within the error of 0; no other unit."""
    net = icgd.Network((1, 3, 1))
    program = icgd.compile(net, icgd.SGD(lr=1e-9))
    almost_one = 1.0 - 0.5 / program.step.slope
    start = [
        (vec([1.0], [1.0], [1.0]), vec(0.5, -almost_one, -7.0)),
        (vec([1.0, 1.0, 1.0]), vec(0.0)),
    ]
    run = program.run(
        vec([-1.0], [1.0], [-2.0]), vec([0.0], [0.0], [0.0]), init=start, executor=executor
    )
    assert run.near_kink.count == 1
    assert run.near_kink.first == (2, 1, 2)


def test_an_ordinary_run_meets_no_kinks():
    case = BY_NAME["mixed"]
    X, Y = data(case, 0, n=30)
    run = compiled(case).run(X, Y, init=init(case, 0))
    assert run.near_kink == KinkReport(0, None)
