"""Configurations: inheritance, overrides, names of another repository, and every mistake by name."""

from __future__ import annotations

import pytest
import torch
import yaml

import icgd
from icgd.lab.tasks import Gaussian
from icgd.lab.training.config import CurriculumAxis, load_config, make_config, presets
from icgd.lab.training.trainer import train


def write(path, **data):
    path.write_text(yaml.safe_dump(data))
    return path


def test_every_preset_loads():
    assert presets()
    for name in presets():
        assert load_config(name).name == name


def test_files_inherit_and_overrides_win(tmp_path):
    write(
        tmp_path / "base.yaml",
        model={"n_layer": 2, "n_embd": 32},
        training={"seed": 1, "batch_size": 4},
    )
    write(tmp_path / "child.yaml", inherit="base.yaml", model={"n_layer": 5})
    made = load_config(
        tmp_path / "child.yaml",
        ["training.seed=9", "training.curriculum.dims.start=2", "training.curriculum.dims.end=4"],
    )
    assert (made.model.n_layer, made.model.n_embd) == (5, 32)
    assert (made.training.seed, made.training.batch_size) == (9, 4)
    assert made.training.curriculum.dims == CurriculumAxis(start=2, end=4)
    write(tmp_path / "preset.yaml", inherit="noisy_linear_small")
    assert load_config(tmp_path / "preset.yaml").task.n_dims == 5


def test_the_keys_of_the_in_context_learning_repository_are_understood():
    made = make_config(
        {
            "out_dir": "models/linear",
            "model": {
                "family": "gpt2",
                "n_dims": 20,
                "n_positions": 101,
                "n_embd": 256,
                "n_layer": 12,
                "n_head": 8,
            },
            "training": {
                "task": "sparse_linear_regression",
                "data": "gaussian",
                "task_kwargs": {"sparsity": 3},
                "batch_size": 64,
                "learning_rate": 0.0001,
                "save_every_steps": 1000,
                "keep_every_steps": 100000,
                "train_steps": 500001,
                "num_tasks": None,
                "num_training_examples": None,
                "resume_id": None,
                "curriculum": {
                    "dims": {"start": 5, "end": 20, "inc": 1, "interval": 2000},
                    "points": {"start": 11, "end": 41, "inc": 2, "interval": 2000},
                },
            },
            "wandb": {"project": "x", "entity": "y", "notes": "", "log_every_steps": 100},
            "test_run": False,
        }
    )
    assert made.model.kind == "standard"
    assert (made.task.name, made.task.n_dims, made.task.sparsity) == (
        "sparse_linear_regression",
        20,
        3,
    )
    assert made.training.curriculum.points.at(10**6) == 41
    assert made.training.train_steps == 500_001


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"modell": {}}, r"Unknown setting `modell`. Did you mean `model`\?"),
        ({"model": {"n_layers": 3}}, r"`model.n_layers`. Did you mean `model.n_layer`\?"),
        (
            {"training": {"learning_rte": 3}},
            r"learning_rte`. Did you mean `training.learning_rate`\?",
        ),
        ({"training": {"curriculum": {"dim": {}}}}, r"`training.curriculum.dim`. Did you mean"),
        ({"training": {"batch_size": 0}}, r"training.batch_size: .*got 0"),
        ({"training": {"learning_rate": "fast"}}, r"training.learning_rate: .*got 'fast'"),
        ({"model": {"n_head": 3, "n_embd": 64}}, r"n_head.* must divide n_embd = 64"),
        ({"task": {"nam": "linear_regression"}}, r"`task.nam`. Did you mean `task.name`\?"),
    ],
)
def test_mistakes_are_named(data, message):
    with pytest.raises((icgd.InvalidFile, icgd.InvalidParameter), match=message):
        make_config(data)


def test_files_that_are_no_configurations(tmp_path):
    (tmp_path / "bad.yaml").write_text("a: [1\n b: }")
    with pytest.raises(icgd.InvalidFile, match="not valid YAML"):
        load_config(tmp_path / "bad.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n- 2\n")
    with pytest.raises(icgd.InvalidFile, match="must hold names and values"):
        load_config(tmp_path / "list.yaml")
    write(tmp_path / "a.yaml", inherit="b.yaml")
    write(tmp_path / "b.yaml", inherit="a.yaml")
    with pytest.raises(
        icgd.InvalidFile, match=r"inherit from each other: a.yaml -> b.yaml -> a.yaml"
    ):
        load_config(tmp_path / "a.yaml")
    with pytest.raises(icgd.InvalidFile, match="There is no configuration"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(
        icgd.InvalidFile, match=r"no preset 'noisy_linear_smal'. Did you mean noisy_linear_small\?"
    ):
        load_config("noisy_linear_smal")
    with pytest.raises(icgd.InvalidParameter, match=r"--set.*a.b=c"):
        load_config("noisy_linear_small", ["training.seed"])


def test_names_of_the_other_repository_win_when_they_are_set_by_hand():
    config = load_config(
        "noisy_linear_small",
        ["training.task=linear_regression", "model.n_dims=3", "task.noise_std=null"],
    )
    assert (config.task.name, config.task.n_dims) == ("linear_regression", 3)


def test_a_value_set_by_hand_replaces_what_was_there(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("task: {data: {kind: uniform, low: -1.0, high: 2.0}, n_dims: 3}\n")
    config = load_config(path, ["task.data={kind: gaussian, mean: 1.0}"])
    assert config.task.data == Gaussian(mean=1.0)
    assert config.task.n_dims == 3
    deep = load_config(
        path, ["training.curriculum.points.start=2", "training.curriculum.points.end=9"]
    )
    assert (deep.training.curriculum.points.start, deep.training.curriculum.points.end) == (2, 9)


@pytest.mark.parametrize(
    ("text", "sets", "message"),
    [
        ("inherit: 5", [], "inherit must name presets or files"),
        ("{}", ["model=3"], "`model` must hold names and values"),
        ("{}", ["model.n_head=3"], "n_head` must divide n_embd"),
    ],
)
def test_strange_values_are_one_clear_error(tmp_path, text, sets, message):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(icgd.InvalidFile, match=message) as told:
        load_config(path, sets)
    assert "Value error" not in str(told.value)


@pytest.mark.parametrize(
    ("sets", "name"),
    [
        (["training.n_points=50"], "training.n_points"),
        (["model.layout=series"], "model.layout"),
        (["task.name=mlp_chain"], "model.layout"),
        (["training.curriculum.dims={start: 1, end: 9}"], "training.curriculum.dims.end"),
        (["training.curriculum.points={start: 1, end: 99}"], "training.curriculum.points.end"),
        (
            ["training.n_points=50", "training.curriculum.points={start: 1, end: 9}"],
            "training.n_points",
        ),
        (["training.device=cuda:0"], "training.device"),
    ],
)
def test_prompts_a_model_cannot_have_are_refused_before_anything_is_written(tmp_path, sets, name):
    if name == "training.device" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    config = load_config("looped_small", [*sets, f"out_dir={tmp_path / 'run'}"])
    with pytest.raises(icgd.InvalidParameter, match=name):
        train(config, stop_after=1)
    assert not (tmp_path / "run").exists()
