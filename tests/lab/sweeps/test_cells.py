"""Cells: names that follow the settings, the papers' settings at their scale, models that are trained once."""

from __future__ import annotations

import copy
import inspect
import json
import math
from importlib import import_module

import pytest
import torch

import icgd
from icgd.lab.experiments.experiment import SCALES
from icgd.lab.models.build import build_model
from icgd.lab.sweeps.cells import (
    RESULT,
    Cell,
    Workplace,
    read_row,
    run_cells,
    seconds_of,
    training_cell,
)
from icgd.lab.sweeps.workers import Joblib
from icgd.lab.tasks import TaskConfig, build_task
from icgd.lab.training.checkpoints import NAME
from icgd.lab.training.config import make_config
from icgd.lab.training.journal import METRICS, training_seconds
from icgd.lab.training.trainer import sample_step, train
from icgd.papers.algo.experiments.algoformers import CHAIN, SERIES
from icgd.papers.registry import EXPERIMENTS, find_experiment

every_experiment = pytest.mark.parametrize("name", list(EXPERIMENTS))
every_scale = pytest.mark.parametrize("scale", SCALES)
TINY = {
    "model": {"n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 5},
    "task": {"name": "noisy_linear_regression", "n_dims": 2, "noise_std": 0.5},
    "training": {
        "batch_size": 4,
        "train_steps": 6,
        "n_points": 5,
        "threads": 1,
        "log_every_steps": 2,
        "learning_rate": 0.01,
    },
}
FINAL = "icgd.lab.experiments.measures:final"
SHORT = {"n_prompts": 8}


def a_cell(key=None, options=None, **training) -> Cell:
    told = {**TINY, "training": {**TINY["training"], **training}}
    return training_cell(key or {"a": 1}, make_config(told), FINAL, options or SHORT)


# -- names -----------------------------------------------------------------------------------------------


def leaves(told, path=()):
    """Where the values of nested settings are."""
    if isinstance(told, dict):
        return [leaf for k, v in told.items() for leaf in leaves(v, (*path, k))]
    return [path]


def changed(told, path):
    """A copy with another value at one place."""
    made = copy.deepcopy(told)
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = [inside[path[-1]], "another"]
    return made


def test_the_same_settings_have_the_same_name():
    assert a_cell().name == a_cell().name
    # Where results go and what a run is called are no settings of a training.
    elsewhere = training_cell(
        {"a": 1}, make_config({**TINY, "out_dir": "b", "name": "c"}), FINAL, SHORT
    )
    assert elsewhere.name == a_cell().name
    backwards = dict(reversed(a_cell().options.items()))
    assert Cell(a_cell().key, a_cell().work, backwards).name == a_cell().name


def test_any_other_setting_is_another_name():
    cell = a_cell()
    places = leaves(cell.options)
    assert len(places) > 40
    names = {Cell(cell.key, cell.work, changed(cell.options, p)).name for p in places}
    assert len(names | {cell.name}) == len(places) + 1
    assert Cell(cell.key, f"{cell.work}_", cell.options).name != cell.name
    assert Cell({"a": 2}, cell.work, cell.options).name != cell.name


def test_any_other_training_is_another_model(tmp_path):
    place = Workplace(tmp_path, tmp_path / "models")
    base = a_cell().config
    assert place.model_directory(base) == place.model_directory(
        base.model_copy(update={"out_dir": "b"})
    )
    others = [a_cell(**t).config for t in ({"seed": 1}, {"train_steps": 7}, {"learning_rate": 1.0})]
    assert len({place.model_directory(c) for c in (base, *others)}) == 4
    assert Workplace(tmp_path).model_directory(base) == tmp_path


def test_names_are_safe_for_directories():
    cell = Cell({"a": "../0.9 : 0.1/..", "b": "x" * 300}, "m:f")
    assert "/" not in cell.name
    assert " " not in cell.name
    assert len(cell.name) < 100


# -- every experiment ------------------------------------------------------------------------------------


def named(function):
    module, _, within = function.partition(":")
    return getattr(import_module(module), within)


@every_scale
@every_experiment
def test_cells_are_distinct_valid_and_plain(name, scale):
    cells = find_experiment(name).cells(scale)
    assert len({cell.name for cell in cells}) == len(cells)
    assert len({json.dumps(cell.key) for cell in cells}) == len(cells)
    tasks = {}
    for cell in cells:
        # Options travel as JSON, to workers elsewhere too.
        assert json.loads(json.dumps(cell.options)) == cell.options
        assert callable(named(cell.options.get("measure", cell.work)))
        # What is given is what the work takes, and the option that costs grow with is among it.
        inspect.signature(named(cell.work)).bind(None, **cell.options)
        told = [cell.options[name] for name in cell.effort]
        assert not told or (math.prod(told) == cell.units > 0 and told[0] == cell.steps)
        config = cell.config
        if config is not None or "task" in cell.options:
            told = cell.options.get("task")
            task = TaskConfig.model_validate(told) if config is None else config.task
            tasks[task.model_dump_json()] = task
        if config is not None:
            tested = cell.options["options"].get("n_points", config.training.n_points)
            assert config.model.n_positions >= max(config.training.n_points, tested)
            assert config.model.window <= config.model.loops
            assert config.training.seed == cell.key["seed"]
    for task in tasks.values():
        build_task(task)


@every_experiment
def test_smoke_cells_can_be_built_and_stepped(name):
    for cell in find_experiment(name).cells("smoke"):
        if cell.config is not None:
            task = build_task(cell.config.task)
            model = build_model(cell.config.model, task.d_x, task.d_y)
            assert bool(torch.isfinite(model.loss(sample_step(task, cell.config, 0))))


@every_experiment
def test_orderings_have_at_least_three_seeds_at_every_scale_but_smoke(name):
    experiment = find_experiment(name)
    for scale in SCALES:
        seeds = {c.key["seed"] for c in experiment.cells(scale) if "seed" in c.key}
        assert seeds == set(range(experiment.size(scale).seeds))
        assert len(seeds) >= (1 if scale == "smoke" else 3)


@every_experiment
def test_scales_grow(name):
    """The paper's scale may be that of a night where a paper tells no sizes."""

    def work(cell):
        config = cell.config
        if config is None:
            sizes = [cell.options.get(key, 1) for key in ("batch", "students", "width")]
            return cell.steps * math.prod(sizes)
        return cell.steps * config.training.batch_size * config.model.n_embd

    amounts = [sum(work(c) for c in find_experiment(name).cells(scale)) for scale in SCALES]
    assert amounts == sorted(amounts)
    assert len(set(amounts)) >= 3


def test_an_unknown_scale_is_refused():
    with pytest.raises(icgd.InvalidParameter, match="smoke, laptop, overnight, paper"):
        find_experiment("deep-g1").size("huge")


def paper_configs(name):
    return [(c, c.config) for c in find_experiment(name).cells("paper") if c.config is not None]


def test_the_papers_scale_is_the_papers_deep():
    """DEEP, Appendix G.1."""
    for name in ("deep-g1", "deep-g2", "deep-g3"):
        for _, config in paper_configs(name):
            model, training = config.model, config.training
            assert (model.kind, model.n_head, model.n_embd, model.hidden) == (
                "standard",
                8,
                256,
                256,
            )
            assert (config.task.n_dims, config.task.hidden_layer_size) == (20, 200)
            assert (training.train_steps, training.batch_size, training.n_points) == (
                500_000,
                64,
                51,
            )
            assert training.schedule == "constant"
            assert training.curriculum.dims is training.curriculum.points is None
    for name in ("deep-g1", "deep-g2"):
        assert {config.model.n_layer for _, config in paper_configs(name)} == {12}
        for cell, _ in paper_configs(name):
            options = cell.options["options"]
            assert (options["n_points"], options["n_prompts"]) == (76, 6400)
    cells = find_experiment("deep-g1").cells("paper")
    assert {cell.key["n_layers"] for cell in cells} == {3, 4, 6}
    assert {c.key["attention"] for c, _ in paper_configs("deep-g1")} == {"relu", "softmax"}
    assert {config.model.n_layer for _, config in paper_configs("deep-g3")} == {4, 6, 8, 10}
    assert find_experiment("deep-g3").cells("paper")[0].key["examples"] == [15, 30, 45]
    means = {
        change["weights"]["mean"]
        for cell, _ in paper_configs("deep-g2")
        for change in cell.options["options"]["tests"].values()
    }
    assert means == {0.0, -0.5, 0.5}


def test_the_papers_scale_is_the_papers_algo():
    """ALGO, Section 5.1."""
    for name in ("algo-fig2", "algo-fig3", "algo-fig4", "algo-fig5"):
        for _, config in paper_configs(name):
            training = config.training
            assert (config.task.n_dims, config.model.n_embd) == (20, 256)
            assert (training.learning_rate, training.train_steps) == (1e-4, 500_000)
            points = 40 * (config.task.n_layers + 1) - 1 if config.task.name == CHAIN else 40
            assert training.n_points == points
    for _, config in paper_configs("algo-fig2"):
        model = config.model
        if model.kind == "standard":
            assert model.n_layer == 12
        else:
            assert (model.n_layer, model.n_pre, model.n_post) == (1, None, None)
            assert (model.loops, model.window) == (20, 15)
        assert (model.layout == "series") == (config.task.name in (SERIES, CHAIN))
    pairs = {(c.model.loops, c.model.window) for _, c in paper_configs("algo-fig3")}
    assert {(20, 15), (20, 5)} <= pairs
    pairs = {(c.model.loops, c.model.window) for _, c in paper_configs("algo-fig5")}
    assert pairs == {(20, 15), (10, 10)}
    assert {c.task.noise_std for _, c in paper_configs("algo-fig5")} == {0.0, 0.1, 1.0}


# -- models that several cells want ----------------------------------------------------------------------


def told_in(directory, cell):
    return json.loads((directory / cell.name / RESULT).read_text())


def test_cells_with_the_same_training_train_it_once(tmp_path):
    cells = [a_cell({"prompts": n}, {"n_prompts": n}) for n in (4, 8)]
    run_cells(cells[:1], tmp_path / "cells", Joblib(1), models=tmp_path / "models")
    (model,) = (tmp_path / "models").iterdir()
    # Its metrics hold the speed, which no second training would repeat.
    before = (model / METRICS).read_bytes()
    rows = run_cells(cells, tmp_path / "cells", Joblib(1), models=tmp_path / "models")
    assert [p.name for p in (tmp_path / "models").iterdir()] == [model.name]
    assert (model / METRICS).read_bytes() == before
    assert rows[0]["train_loss"] == rows[1]["train_loss"]
    assert rows[0]["model: last"] != rows[1]["model: last"]


def test_the_time_of_a_training_counts_for_every_cell_that_uses_it(tmp_path):
    first, second = (a_cell({"prompts": n}, {"n_prompts": n}) for n in (4, 8))
    run_cells([first], tmp_path / "cells", Joblib(1), models=tmp_path / "models")
    (model,) = (tmp_path / "models").iterdir()
    assert told_in(tmp_path / "cells", first)["seconds"] >= training_seconds(model) > 0
    # As if the training had taken 100 s a step: the second cell trains nothing and says so all the same.
    lines = [json.loads(line) for line in (model / METRICS).read_text().splitlines()]
    slow = [json.dumps({**line, "steps_per_second": 0.01}) + "\n" for line in lines]
    (model / METRICS).write_text("".join(slow))
    assert training_seconds(model) == pytest.approx(600)
    run_cells([first, second], tmp_path / "cells", Joblib(1), models=tmp_path / "models")
    assert told_in(tmp_path / "cells", second)["seconds"] >= 600
    assert seconds_of([first, second], tmp_path / "cells") >= 600


@pytest.mark.parametrize("stop", [1, 4, 6])
def test_a_cell_that_was_interrupted_ends_in_the_same_numbers(tmp_path, stop):
    cell = a_cell()
    (whole,) = run_cells([cell], tmp_path / "a", Joblib(1), models=tmp_path / "models a")
    place = Workplace(tmp_path / "b" / cell.name, tmp_path / "models b")
    model = place.model_directory(cell.config)
    train(cell.config.model_copy(update={"out_dir": str(model)}), stop_after=stop)
    assert (model / NAME).is_file()
    (resumed,) = run_cells([cell], tmp_path / "b", Joblib(1), models=tmp_path / "models b")
    assert resumed == whole


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"row": 3, "seconds": 1}', '{"row": {}}'])
def test_a_result_that_is_not_whole_is_no_result(tmp_path, text):
    cell = a_cell()
    (tmp_path / cell.name).mkdir()
    (tmp_path / cell.name / RESULT).write_text(text)
    assert read_row(tmp_path / cell.name) is None
    assert seconds_of([cell], tmp_path) == 0
    assert len(run_cells([cell], tmp_path, Joblib(1))) == 1
    assert read_row(tmp_path / cell.name)["a"] == 1
