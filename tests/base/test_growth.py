"""Absurd numbers of rounds: what is kept of them is refused with a sentence, after the second one."""

import re
import warnings

import pytest
import torch
from forked import MB, forked

import icgd
from icgd.base.growth import Growth, size_of
from icgd.errors import TooLarge

ABSURD = 10**7
F64 = torch.float64
# The first optimizer makes torch import for seconds: here, and not in every fork.
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
X = torch.linspace(-1, 1, 60, dtype=F64).reshape(20, 3)
NET = icgd.Network((3, 4, 1))
SGD = icgd.compile(NET, icgd.SGD(0.01))
STACK = icgd.compile(icgd.Network((3, 4, 1), "tanh"), icgd.GD(0.01), method="stack")
RIDGE = icgd.compile(icgd.Ridge(3, lam=0.1), icgd.GD(0.1))
LOOP = icgd.compile(icgd.LinearRegression(3, 20), icgd.GD(0.1))
NEWTON = icgd.compile(icgd.LinearRegression(3, 20), icgd.Newton())
G = torch.Generator().manual_seed(0)
WIDE = torch.randn(20, 3, generator=G, dtype=F64)
Y, ROW = X[:, :1] * 0.5, WIDE[:, 0] * 0.5

KEPT = {
    "verify a network": lambda: icgd.verify(SGD, X, Y, init=NET.init(0), epochs=ABSURD),
    "verify a stack": lambda: icgd.verify(STACK, X, Y, init=NET.init(0), steps=ABSURD),
    "verify a linear model": lambda: icgd.verify(RIDGE, WIDE, ROW, steps=ABSURD),
    "verify a loop": lambda: icgd.verify(LOOP, WIDE, ROW, steps=ABSURD),
    "verify newton": lambda: icgd.verify(NEWTON, WIDE, ROW, steps=ABSURD),
    "weights of a network": lambda: SGD.run(
        X, Y, init=NET.init(0), epochs=ABSURD, record="weights"
    ),
    "weights of a loop": lambda: LOOP.run(WIDE, ROW, steps=ABSURD, record="weights"),
    "blocks of a network": lambda: SGD.run(X, Y, init=NET.init(0), epochs=ABSURD, record="trace"),
    "blocks of a linear model": lambda: RIDGE.run(WIDE, ROW, steps=ABSURD, record="trace"),
}


@pytest.mark.parametrize("case", KEPT)
def test_an_absurd_number_of_rounds_is_refused_with_a_sentence(case, monkeypatch):
    monkeypatch.setenv("ICGD_MEMORY_LIMIT", "1GB")
    got = forked(KEPT[case], memory=500 * MB, cpu=20)
    assert got.error == "TooLarge", (got.error, got.message)
    name = "epochs" if "network" in case else "steps"
    rounds = f"{ABSURD * 20:,} rounds" if "network" in case else f"{ABSURD:,} "
    assert rounds in got.message
    assert (
        f"most of it for `{name}` = {ABSURD}, and 1 GB are available. Lower `{name}`" in got.message
    )
    # Bytes, and how long it would go on.
    assert re.search(r"takes about \d[\d.]* (GB|TB) of memory and \d[\d.]* \w+", got.message)
    assert got.peak < 100 * MB


def test_a_run_that_keeps_nothing_takes_the_same_memory_however_long_it_is(monkeypatch):
    monkeypatch.setenv("ICGD_MEMORY_LIMIT", "1GB")

    class Enough(Exception):
        pass

    def stopped_after(rounds):
        def look(done, total):
            assert total == 20 * ABSURD
            if done == rounds:
                raise Enough

        return lambda: SGD.run(X, Y, init=NET.init(0), epochs=ABSURD, progress=look)

    short, long = (forked(stopped_after(n), memory=500 * MB) for n in (100, 4000))
    assert short.error == long.error == "Enough"
    assert long.peak < short.peak + 5 * MB


@pytest.mark.parametrize(
    ("epochs", "record"), [(40, "weights"), (30, "trace")], ids=["weights", "trace"]
)
def test_what_is_said_is_what_is_taken(epochs, record, monkeypatch):
    """Within a factor of 3, as all estimates of sizes."""
    net = icgd.Network((8, 64, 64, 4))  # many weights, so that few rounds keep much
    program = icgd.compile(net, icgd.SGD(0.001))
    rows = torch.randn(40, 8, generator=torch.Generator().manual_seed(0), dtype=F64)

    def work():
        program.run(rows, rows[:, :4], init=net.init(0), epochs=epochs, record=record)

    monkeypatch.setenv("ICGD_MEMORY_LIMIT", "1MB")
    said = forked(work)
    number, unit = re.search(r"about ([\d.]+) (MB|GB) of memory", said.message).groups()
    estimate = float(number) * (MB if unit == "MB" else 1000 * MB)
    monkeypatch.setenv("ICGD_MEMORY_LIMIT", "none")
    taken = forked(work)
    assert taken.error == ""
    assert taken.peak > 50 * MB
    assert estimate / 3 < taken.peak < 3 * estimate


def test_an_ordinary_run_is_left_alone():
    run = SGD.run(X, Y, init=NET.init(0), epochs=2, record="weights")
    assert len(run.history) == 40


def test_epochs_of_a_verified_run_are_those_of_sgd():
    """Rows are gone through again and again without being copied."""
    check = icgd.verify(SGD, X, Y, init=NET.init(0), epochs=3)
    rows, targets = X.repeat(3, 1), Y.repeat(3, 1)
    once = icgd.verify(SGD, rows, targets, init=NET.init(0))
    assert check.passed
    assert [r.error for r in check.rounds] == [r.error for r in once.rounds]
    assert all(
        torch.equal(a, b)
        for ours, theirs in zip(check.sgd_weights, once.sgd_weights, strict=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def test_it_is_judged_by_what_the_second_round_adds(monkeypatch):
    monkeypatch.setenv("ICGD_MEMORY_LIMIT", "1MB")
    kept = []
    growth = Growth("It", "steps", 7, 10)
    for done in (1, 2, 3):
        kept.append(torch.zeros(10_000 if done < 3 else 10**6, dtype=F64))
        growth.after_round(done, kept)  # 0.8 MB by the second one: fits
    growth, kept = Growth("It", "steps", 7, 20), [kept[0]]
    growth.after_round(1, kept)
    with pytest.raises(TooLarge, match=r"about 1\.6 MB of memory, most of it for `steps` = 7"):
        growth.after_round(2, [*kept, torch.zeros(10_000, dtype=F64)])


def test_sizes_count_everything_once():
    numbers = torch.zeros(1000, dtype=F64)
    assert 8000 < size_of(numbers) < 9000
    assert size_of([numbers, numbers]) < 9000
    assert size_of({"a": [numbers], "b": (numbers.clone(), None)}) > 16_000


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
