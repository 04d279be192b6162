"""`icgd reproduce`: bad input is one line and writes nothing; neither do the list and the estimate."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from icgd.cli import app
from icgd.errors import InvalidParameter
from icgd.lab.experiments.claim import tally
from icgd.lab.experiments.experiment import SCALES
from icgd.lab.experiments.record import recorded
from icgd.lab.experiments.reproduce import reproduce
from icgd.lab.sweeps import whole_cells
from icgd.lab.sweeps.time_estimate import duration
from icgd.papers.registry import EXPERIMENTS


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with one file in it, where everything happens."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("mine")
    return tmp_path


def nothing_new(where) -> bool:
    return [p.name for p in where.iterdir()] == ["a-file"] and (
        where / "a-file"
    ).read_text() == "mine"


NAME = next(iter(EXPERIMENTS))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["`NAME`", *EXPERIMENTS, "all"]),
        (["deep-g4"], ["'deep-g4'", "Did you mean deep-g"]),
        (["algofig2"], ["'algofig2'", "Did you mean algo-fig2?"]),
        (["ALGO-FIG5"], ["'ALGO-FIG5'", *EXPERIMENTS]),
        (["nothing-like-it"], ["'nothing-like-it'", *EXPERIMENTS]),
        ([NAME, "--scale", "huge"], ["--scale", "'huge'", *SCALES]),
        (["all", "--scale", ""], ["--scale", "''", *SCALES]),
        ([NAME, "--executor", "slurm"], ["--executor", "'slurm'", "joblib, ray"]),
        ([NAME, "--workers", "0"], ["--workers", "0", ">= 1"]),
        ([NAME, "--workers", "-2"], ["--workers", "-2"]),
        ([NAME, "--workers", "many"], ["'--workers'", "'many'"]),
        ([NAME, "--out", "a-file"], ["--out", "a-file", "directory"]),
        ([NAME, "--out", "a-file/deep"], ["--out", "a-file"]),
        ([NAME, "--estimate", "--out", "a-file"], ["--out", "a-file"]),
        ([NAME, "--seeds", "5"], ["--seeds"]),
        ([NAME, "deep-g2"], ["deep-g2"]),
        (["cot-e", "--list"], ["'cot-e'", "Did you mean cot-d?"]),
        (["cot-d", "--device", "meta"], ["--device", "'meta'", "be cpu", "cot-d"]),
        (["cot-d", "--device", "nowhere"], ["--device", "'nowhere'", "be cpu", "cot-d"]),
        (["deep-g1", "--device", "nowhere"], ["--device", "'nowhere'", "of this machine"]),
    ],
    ids=lambda v: " ".join(v)[:30] or "no name",
)
def test_bad_input_is_one_line_and_writes_nothing(here, icgd_command, arguments, words):
    said = icgd_command("reproduce", *arguments)
    assert said.exit_code == 2
    assert said.stdout == ""
    (line,) = said.stderr.splitlines()
    assert line.startswith("icgd: error: ")
    assert "Traceback" not in line
    for word in words:
        assert word in line
    assert nothing_new(here)


def test_the_list_of_one_name_shows_that_one(here):
    def listed(*names: str) -> list[str]:
        said = CliRunner().invoke(app, ["reproduce", *names, "--list"], env={"COLUMNS": "80"})
        assert said.exit_code == 0
        return [line for line in said.stdout.splitlines() if line in EXPERIMENTS]

    assert listed("deep-h") == ["deep-h"]
    assert listed("all") == listed() == list(EXPERIMENTS)


def test_a_scale_is_checked_before_anything_is_run_or_timed(here, icgd_command, monkeypatch):
    from icgd.lab.sweeps import time_estimate as estimate

    for name in ("_cost_of_training", "_cost_of_work"):
        monkeypatch.setattr(estimate, name, lambda *_: pytest.fail("a step was timed"))
    assert icgd_command("reproduce", "all", "--scale", "small").exit_code == 2
    assert nothing_new(here)


def test_another_device_is_for_experiments_that_can_use_it(here, icgd_command, monkeypatch):
    """`all` runs the others on the CPU, as the help says."""
    from icgd.cli import reproduce_command

    used = {}
    monkeypatch.setattr(
        reproduce_command,
        "_reproduce",
        lambda e, _, how, **__: used.update({e.name: how["device"]}),
    )
    options = ("--device", "meta", "--scale", "smoke", "--estimate")
    assert icgd_command("reproduce", "all", *options).exit_code == 0
    assert list(used) == list(EXPERIMENTS)
    on_cpu = {name for name, device in used.items() if device == "cpu"}
    assert set(used.values()) == {"cpu", "meta"}
    (told,) = re.findall(r"small trainings \(([^)]*)\)", plain_help())
    assert set(told.split(", ")) == on_cpu
    with pytest.raises(InvalidParameter, match="--device"):
        reproduce(EXPERIMENTS["cot-d"], "smoke", out=here / "out", device="meta")
    assert nothing_new(here)


def plain_help() -> str:
    """The help of the command, on one line."""
    text = CliRunner().invoke(app, ["reproduce", "--help"], env={"COLUMNS": "300"}).stdout
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("columns", [60, 80, 250])
def test_the_list_shows_every_experiment_and_writes_nothing(here, columns):
    said = CliRunner().invoke(app, ["reproduce", "--list"], env={"COLUMNS": str(columns)})
    assert said.exit_code == 0
    lines = said.stdout.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= columns
    starts = [lines.index(name) for name in EXPERIMENTS]  # a name has a line of its own
    assert starts == sorted(starts)
    for (name, experiment), start, end in zip(
        EXPERIMENTS.items(), starts, [*starts[1:], len(lines)], strict=True
    ):
        words = " ".join(" ".join(lines[start:end]).split())
        record = recorded(name)
        costs = {**record.costs, record.scale: record.seconds}
        times = ", ".join(f"{scale} {duration(costs[scale])}" for scale in SCALES)
        assert f"{experiment.paper}, {experiment.where}: {experiment.title} {times}" in words
        claims = experiment.claims(record.rows)
        assert f"{record.seeds} seeds: {tally(claims)}. " in words
        for claim in claims:
            assert f"{claim.word}: {claim.short}" in words
    assert nothing_new(here)


def test_names_are_not_broken_in_a_narrow_terminal(here):
    """They are what has to be typed."""
    said = CliRunner().invoke(app, ["reproduce", "--list"], env={"COLUMNS": "80"})
    for name in EXPERIMENTS:
        assert name in said.stdout


@pytest.mark.parametrize(("name", "started"), [("deep-g3", None), ("algo-fig3", 1.0)])
def test_an_estimate_is_told_and_nothing_is_written(here, icgd_command, monkeypatch, name, started):
    """Workers are started and timed for one of them, in the other that is taken as known."""
    if started is not None:
        monkeypatch.setattr(whole_cells, "start_of_processes", lambda n: started * n)
    said = icgd_command("reproduce", name, "--scale", "smoke", "--estimate", "--out", "out")
    assert said.exit_code == 0
    cells = EXPERIMENTS[name].cells("smoke")
    steps = sum(c.steps for c in cells)
    trainings = sum(c.steps > 0 for c in cells)
    assert f"{trainings} trainings, {steps} steps, " in said.stdout
    assert "with 2 workers, with everything that is measured." in said.stdout
    assert f"{len(cells)} of {len(cells)} cells to do" in said.stdout
    assert "Page:" not in said.stdout
    assert nothing_new(here)


def test_all_estimates_every_experiment_at_the_papers_scale(here, icgd_command, monkeypatch):
    """With a made-up cost of a step: the papers' models are too large to be stepped here."""
    from icgd.lab.sweeps import time_estimate as estimate

    cost = estimate._Cost(0.0, 0.0, 1e12, 0.5)
    for name in ("_cost_of_training", "_cost_of_work"):
        monkeypatch.setattr(estimate, name, lambda *_: cost)
    said = icgd_command("reproduce", "all", "--scale", "paper", "--estimate", "--workers", "1")
    assert said.exit_code == 0
    for name, experiment in EXPERIMENTS.items():
        steps = [c.steps for c in experiment.cells("paper") if c.steps]
        told = said.stdout[said.stdout.index(f"{name} (") :].splitlines()[1]
        assert f" {len(steps)} trainings, {sum(steps):,} steps, " in told
        units = [c.units for c in experiment.cells("paper") if c.steps]
        assert duration(sum(units) * 0.5) in told
    assert nothing_new(here)


def test_the_cost_is_told_before_the_work_begins(here, icgd_command, monkeypatch):
    from icgd.lab.experiments import reproduce

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run_cells", interrupted)
    said = icgd_command("reproduce", "deep-g3", "--scale", "smoke", "--out", "out")
    assert said.exit_code == 130
    assert "5 of 5 cells to do." in said.stdout
    assert said.stderr.startswith("icgd: interrupted")


def test_a_cell_that_fails_is_one_line_and_the_others_are_kept(here, icgd_command, monkeypatch):
    from icgd.errors import AssumptionViolated
    from icgd.papers.deep.appendix_g import networks as module

    def sometimes(trained, **options):
        if trained.config.model.attention == "softmax":
            raise AssumptionViolated("No luck\ntoday.")
        return whole(trained, **options)

    whole = module.r2_of_a_model
    monkeypatch.setattr(module, "r2_of_a_model", sometimes)
    options = ["--scale", "smoke", "--out", "out", "--workers", "1"]
    said = icgd_command("reproduce", "deep-g3", *options)
    assert said.exit_code == 2
    line = said.stderr.splitlines()[-1]
    assert line.startswith("icgd: error: 2 of 5 cells failed; the others are kept.")
    assert "No luck today." in line
    place = here / "out" / "deep-g3-smoke"
    assert [p.name for p in place.iterdir()] == ["cells"]  # no record of half an experiment
    assert len(list(place.glob("cells/*/result.json"))) == 3  # naive predictors are a cell too
    monkeypatch.undo()
    monkeypatch.chdir(here)
    again = icgd_command("reproduce", "deep-g3", *options)
    assert again.exit_code == 0
    assert again.stderr.count(" cells: ") == 2
    assert (place / "record.json").is_file()
