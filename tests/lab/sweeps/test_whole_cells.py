"""Small experiments are priced by whole cells: what is measured after the steps counts, seeds do not."""

from __future__ import annotations

import pytest

from icgd.lab.sweeps import time_estimate as by_steps
from icgd.lab.sweeps import whole_cells
from icgd.lab.sweeps.cells import Cell, Workplace
from icgd.lab.sweeps.whole_cells import estimate_whole, kind_of_cell, start_of_processes
from icgd.lab.training.flops import flop_counter
from icgd.papers.registry import EXPERIMENTS


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now, self.calls = 0.0, 0

    def perf_counter(self) -> float:
        return self.now


CLOCK = Clock()


def work(place, *, steps: int, measured: float, seed: int) -> dict[str, float]:
    """A second a step, and something afterwards that an estimate by steps leaves out."""
    CLOCK.now += steps
    if not place.only_cost:
        CLOCK.calls += 1
        CLOCK.now += measured
    return {"seed": seed}


def cell(seed: int, steps: int = 1, measured: float = 30.0) -> Cell:
    options = {"steps": steps, "measured": measured, "seed": seed}
    return Cell({"seed": seed}, f"{__name__}:work", options, effort=("steps",))


@pytest.fixture
def clock(monkeypatch):
    CLOCK.now, CLOCK.calls = 0.0, 0
    monkeypatch.setattr(whole_cells.time, "perf_counter", CLOCK.perf_counter)
    monkeypatch.setattr(whole_cells, "start_of_processes", lambda n: 4.0)
    return CLOCK


@pytest.mark.parametrize(("workers", "seconds"), [(1, 97.0), (2, 50.5), (8, 35.0)])
def test_what_comes_after_the_steps_counts(clock, workers, seconds):
    cells = [cell(seed) for seed in range(3)]
    # No more than a third of it is seen by an estimate from steps.
    assert by_steps.estimate(cells, workers).seconds < seconds / 3
    assert estimate_whole(cells, workers).seconds == seconds


def test_one_cell_of_each_kind_is_done(clock):
    made = estimate_whole([cell(s, measured=m) for s in range(5) for m in (1.0, 2.0)], 1)
    assert clock.calls == 2
    assert made.seconds == 4.0 + 5 * (2.0 + 3.0)
    assert (made.trainings, made.steps) == (10, 10)


def test_nothing_to_do_costs_nothing(clock):
    assert estimate_whole([], 2).seconds == 0.0
    assert clock.calls == 0


def test_the_start_of_a_process_takes_time(monkeypatch):
    """What is really loaded is loaded in the tests of `icgd reproduce --estimate`."""
    monkeypatch.setattr(whole_cells, "LOADED", "import json")
    assert start_of_processes(1) > 0.0


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_seeds_of_an_experiment_are_one_kind(name):
    """Cells that differ in their seed alone are timed once."""
    cells = EXPERIMENTS[name].cells("smoke")
    kinds = {}
    for one in cells:
        key = {k: v for k, v in one.key.items() if k != "seed"}
        kinds.setdefault(str(key) + one.work, set()).add(kind_of_cell(one))
    assert all(len(found) == 1 for found in kinds.values())


@pytest.mark.parametrize(
    "name", ["algo-fig3", "deep-g3", pytest.param("cot-d", marks=pytest.mark.slow)]
)
def test_the_estimate_of_the_smoke_scale_is_that_of_a_real_run(name, monkeypatch, tmp_path):
    """Held against all cells done in full, by a clock that operations move: seconds would decide nothing."""
    cells = EXPERIMENTS[name].cells("smoke")
    monkeypatch.setattr(whole_cells, "start_of_processes", lambda n: 0.0)
    with flop_counter() as counter:
        monkeypatch.setattr(
            whole_cells.time, "perf_counter", lambda: float(counter.get_total_flops())
        )
        estimated = estimate_whole(cells, 1).seconds
        before = counter.get_total_flops()
        for number, one in enumerate(cells):
            place = Workplace(tmp_path / str(number))
            place.directory.mkdir()
            one.do(place)
        taken = counter.get_total_flops() - before
    assert taken > 0
    assert taken / 3 < estimated < 3 * taken
    # Trainings alone are not what a small experiment costs.
    assert by_steps.estimate(cells, 1).flops < taken
