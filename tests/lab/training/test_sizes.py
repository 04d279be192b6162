"""Trainings are refused before memory is taken, and estimates are what a step takes."""

import sys

import pytest
from forked import MB, forked_each

from icgd.errors import IcgdError
from icgd.lab.models.build import build_model
from icgd.lab.models.sizes import model_parts
from icgd.lab.tasks import build_task
from icgd.lab.training.config import load_config, make_config
from icgd.lab.training.sizes import step_parts
from icgd.lab.training.trainer import make_optimizer, sample_step, train

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

PRESET = "noisy_linear_small"
TOO_LARGE = {
    "heads": (["model.n_head=10000000000"], "n_head"),
    "width": (["model.n_embd=1000000", "model.n_head=2"], "model.n_embd"),
    "layers": (["model.n_layer=1000000"], "model.n_layer"),
    "hidden": (["model.d_mlp=1000000000"], "model.d_mlp"),
    "positions": (["model.n_positions=100000000"], "model.n_positions"),
    "prompts": (["training.batch_size=10000000"], "training.batch_size"),
    "points": (
        ["training.curriculum.points=null", "training.n_points=100000", "model.n_positions=100000"],
        "training.n_points",
    ),
    "curriculum": (
        ["training.curriculum.points.end=100000", "model.n_positions=100000"],
        "training.curriculum.points.end",
    ),
    "loops": (["model.kind=looped", "model.loops=1000000"], "model.loops"),
    "dimensions": (["task.n_dims=100000000"], "task.n_dims"),
    "depth": (["task.name=decision_tree", "task.depth=60"], "task.depth"),
    "units of the task": (
        ["task.name=relu_2nn_regression", "task.hidden_layer_size=1000000000"],
        "task.hidden_layer_size",
    ),
}


def test_too_large_a_training_is_refused(tmp_path):
    out = f"out_dir={tmp_path / 'run'}"

    def training(settings):
        return lambda: train(load_config(PRESET, [*settings, out]))

    works = {case: training(settings) for case, (settings, _) in TOO_LARGE.items()}
    for case, got in forked_each(works, memory=500 * MB, cpu=2).items():
        assert got.error in ("TooLarge", "InvalidFile", "InvalidParameter"), (case, got)
        assert TOO_LARGE[case][1] in got.message, (case, got)
        assert got.peak < 50 * MB, (case, got)
    assert not (tmp_path / "run").exists()


def test_the_remedy_for_heads_is_a_number_that_divides():
    for n_embd, n_head in ((64, 10**10), (96, 7), (1009, 5000), (10**9 + 7, 10**9)):
        with pytest.raises(IcgdError, match=r"For example n_head=(\d+)\.") as caught:
            make_config({"model": {"n_embd": n_embd, "n_head": n_head}})
        offered = int(str(caught.value).rsplit("n_head=", 1)[1].split(".")[0])
        assert n_embd % offered == 0
        assert offered < n_head


MEASURED = {
    "wide": ({"n_embd": 1200, "n_layer": 2}, {"batch_size": 1, "n_points": 4}, {}),
    "deep": ({"n_embd": 64, "n_layer": 300}, {"batch_size": 1, "n_points": 4}, {}),
    "prompts": ({"n_embd": 64, "n_layer": 3}, {"batch_size": 400}, {}),
    "long": (
        {"n_embd": 64, "n_positions": 600, "n_head": 4},
        {"batch_size": 16, "n_points": 600},
        {},
    ),
    "long relu": (
        {"n_embd": 32, "n_layer": 2, "n_positions": 400, "attention": "relu"},
        {"batch_size": 8, "n_points": 400},
        {},
    ),
    "loops": ({"kind": "looped", "n_embd": 64, "n_layer": 1, "loops": 20}, {}, {}),
    "hidden": ({"n_embd": 8, "n_layer": 1, "d_mlp": 20_000}, {"batch_size": 16}, {}),
    "dimensions": ({"n_embd": 16, "n_layer": 1}, {}, {"n_dims": 20_000}),
}


def test_estimates_are_within_a_factor_of_three_of_a_step():
    # What PyTorch loads at its first optimizer is no part of any training.
    small = make_config({"model": {"n_embd": 8, "n_layer": 1}})
    make_optimizer(small, build_model(small.model, 1, 1)).step()
    configs = {
        case: make_config({"model": model, "training": training, "task": task})
        for case, (model, training, task) in MEASURED.items()
    }

    def step(config):
        task = build_task(config.task)
        model = build_model(config.model, task.d_x, task.d_y)
        optimizer = make_optimizer(config, model)
        model.loss(sample_step(task, config, 0)).backward()
        optimizer.step()

    works = {case: (lambda config=config: step(config)) for case, config in configs.items()}
    for case, took in forked_each(works).items():
        parts = [*model_parts(configs[case].model, 4.5), *step_parts(configs[case])]
        estimate = sum(part.bytes for part in parts)
        assert estimate > 50 * MB, f"{case}: too small to be measured"
        assert took.error == "", (case, took.message)
        most = 3 * estimate + 50 * MB
        assert estimate / 3 < took.peak < most, (case, estimate / MB, took.peak / MB)
