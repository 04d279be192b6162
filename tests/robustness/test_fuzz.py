"""Damaged files of every kind: they load as what they were, or a typed error says that they do not."""

from __future__ import annotations

import json
import random
import shutil
from importlib import resources
from pathlib import Path

import pytest
import torch
import yaml
from tests.robustness.mutations import (
    SMALL,
    forged,
    mutated_bytes,
    mutated_json,
    mutated_tensors,
    mutated_text,
)
from tests.robustness.writers import CONFIG

import icgd
from icgd.base.atomic.tensors import read_tensors
from icgd.errors import IcgdError
from icgd.lab.experiments.record import read_record
from icgd.lab.models.build import build_model
from icgd.lab.training.checkpoints import NAME, load_checkpoint, restore
from icgd.lab.training.config import load_config
from icgd.lab.training.journal import METRICS, read_metrics, training_seconds
from icgd.lab.training.trainer import make_optimizer, train
from icgd.transformer.program import files

pytestmark = pytest.mark.filterwarnings("ignore:.*checksum")
FEW, MANY = 40, 2000


def attack(name, n, mutate, load, expected=None):
    """How many of n damaged files are refused; no other error comes out, and none that load differ.

    expected  what a file that loads must give; None: anything, as such files have no checksum
    """
    refused = 0
    for seed in range(n):
        choose = random.Random(f"{name} {seed}")
        mutate(choose)
        try:
            found = load()
        except IcgdError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name} {seed}: {type(error).__name__}: {error}") from error
        else:
            assert expected is None or found == expected, f"{name} {seed} loads as something else"
    return refused


def numbers(tensors):
    return {
        k: (str(v.dtype), tuple(v.shape), v.reshape(-1).clone().view(torch.uint8).numpy().tobytes())
        for k, v in tensors.items()
    }


# -- checkpoints and metrics --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    directory = tmp_path_factory.mktemp("trained")
    train(CONFIG.model_copy(update={"out_dir": str(directory)}))
    return directory


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def resumed(run):
    """All that a run that goes on takes from its checkpoint."""
    checkpoint = load_checkpoint(run)
    model = build_model(CONFIG.model, 2, 1)
    before = torch.get_rng_state()
    try:
        restore(checkpoint, model, make_optimizer(CONFIG, model))
        state = torch.get_rng_state().tolist()
    finally:
        torch.set_rng_state(before)
    told = (checkpoint.step, repr(checkpoint.running), checkpoint.config, checkpoint.versions)
    return told, numbers(model.state_dict()), numbers(checkpoint.optimizer), state


def damaged_checkpoints(run, n):
    path, expected = run / NAME, resumed(run)
    content = path.read_bytes()
    return attack(
        "checkpoint",
        n,
        lambda choose: path.write_bytes(mutated_tensors(content, choose)),
        lambda: resumed(run),
        expected,
    )


def forged_checkpoints(run, n):
    path = run / NAME
    tensors, metadata = read_tensors(path, "checkpoint")

    def change(tensors, metadata, choose):
        name = choose.choice(sorted(tensors))
        kind = choose.randrange(7)
        if kind == 0:
            del tensors[name]
        elif kind == 1:
            tensors[f"{name}_"] = tensors.pop(name)
        elif kind == 2:
            tensors[name] = tensors[name].to(choose.choice((torch.int8, torch.float16, torch.bool)))
        elif kind == 3:
            tensors[name] = torch.zeros(choose.choice(((), (0,), (3,), (2, 2, 2))))
        elif kind == 4:
            metadata.pop(choose.choice(sorted(metadata)))
        else:
            key = choose.choice(sorted(metadata))
            try:
                told = mutated_json(json.loads(metadata[key]), choose, SMALL)
            except ValueError:
                told = choose.choice(SMALL)
            metadata[key] = json.dumps(told)

    return attack(
        "forged checkpoint",
        n,
        lambda choose: path.write_bytes(forged(tensors, metadata, choose, change)),
        lambda: resumed(run),
    )


def damaged_metrics(run, n):
    path = run / METRICS
    text = path.read_text()
    lines = text.splitlines()

    def mutate(choose):
        if choose.randrange(2):
            path.write_bytes(mutated_bytes(text.encode(), choose))
        else:
            at = choose.randrange(len(lines))
            changed = mutated_text(lines[at], choose)
            path.write_bytes(
                b"\n".join(
                    [
                        *(x.encode() for x in lines[:at]),
                        changed,
                        *(x.encode() for x in lines[at + 1 :]),
                        b"",
                    ]
                )
            )

    return attack("metrics", n, mutate, lambda: (read_metrics(run), training_seconds(run)))


# -- programs ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["network", "statistics", "loop"])
def saved(request, tmp_path_factory):
    program = {
        "network": lambda: icgd.compile(icgd.Network((2, 3, 1)), icgd.SGD(0.1)),
        "statistics": lambda: icgd.compile(icgd.Lasso(2, 0.1), icgd.GD(0.5)),
        "loop": lambda: icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(0.1)),
    }[request.param]()
    directory = tmp_path_factory.mktemp("saved") / request.param
    program.save_pretrained(directory)
    return directory


@pytest.fixture
def program(saved, tmp_path):
    shutil.copytree(saved, tmp_path / saved.name)
    return tmp_path / saved.name


def loaded(directory):
    program = icgd.Program.from_pretrained(directory)
    return program.config, numbers(program.state_dict())


def damaged_configs(directory, n):
    path, expected = directory / "config.json", loaded(directory)
    text = path.read_text()
    return attack(
        f"config of a {directory.name}",
        n,
        lambda choose: path.write_bytes(mutated_text(text, choose)),
        lambda: loaded(directory),
        expected,
    )


def damaged_weights(directory, n):
    path, expected = directory / "model.safetensors", loaded(directory)
    content = path.read_bytes()
    return attack(
        f"weights of a {directory.name}",
        n,
        lambda choose: path.write_bytes(mutated_tensors(content, choose)),
        lambda: loaded(directory),
        expected,
    )


def forged_configs(directory, n):
    """Configs whose checksum fits: what they say is built, or refused with a sentence."""
    text = (directory / "config.json").read_text()
    tensors, _ = read_tensors(directory / "model.safetensors", "safetensors file")

    def mutate(choose):
        config = json.loads(text)
        part = choose.choice(("problem", "optimizer", "options", "dtype", "slots"))
        config[part] = mutated_json(config[part], choose, SMALL)
        (directory / "config.json").write_text(json.dumps(config))
        metadata = {
            "format": files.FORMAT,
            "config": files.config_digest(config),
        }
        content = forged(tensors, metadata, choose, lambda *_: None)
        (directory / "model.safetensors").write_bytes(content)

    return attack(f"forged config of a {directory.name}", n, mutate, lambda: loaded(directory))


# -- traces, configurations, records ------------------------------------------------------------------


@pytest.fixture(scope="module")
def trace_text(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    program = icgd.compile(icgd.Ridge(2, 0.1), icgd.GD(0.5))
    x = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(3, 2)
    icgd.record_trace(program, x, x[:, 0], steps=2).save(path)
    return path.read_text()


def damaged_traces(text, path, n):
    def load():
        found = icgd.Trace.load(path)
        look_up = found.numbers()
        for block in found.blocks:
            for value in (*block.slots.values(), *block.away.values()):
                look_up(value)

    return attack("trace", n, lambda choose: path.write_bytes(mutated_text(text, choose)), load)


def damaged_yaml(path, n):
    data = {
        **CONFIG.model_dump(mode="json"),
        "inherit": "noisy_linear_small",
        "training": {
            **CONFIG.model_dump(mode="json")["training"],
            "task_kwargs": {"noise_std": 0.5},
            "curriculum": {"dims": {"start": 1, "end": 2}, "points": {"start": 1, "end": 3}},
        },
    }
    text = yaml.safe_dump(data)

    def mutate(choose):
        if choose.randrange(3):
            changed = yaml.safe_dump(mutated_json(data, choose, SMALL)).encode()
        else:
            changed = mutated_bytes(text.encode(), choose)
        path.write_bytes(changed)

    return attack("configuration", n, mutate, lambda: load_config(path))


def damaged_records(path, n):
    source = resources.files("icgd.lab.experiments").joinpath("recorded", "deep-g2.json")
    text = source.read_text(encoding="utf-8")
    return attack(
        "record",
        n,
        lambda choose: path.write_bytes(mutated_text(text, choose)),
        lambda: read_record(path),
    )


# -- the tests: a sample, and the campaign ------------------------------------------------------------


def few_or_many(test):
    """The same test with a few mutations, and in the slow suite with many."""
    return pytest.mark.parametrize(
        "n", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"]
    )(test)


@few_or_many
def test_checkpoints(run, n):
    assert damaged_checkpoints(run, n) >= 0.6 * n


@few_or_many
def test_checkpoints_whose_checksum_was_made_to_fit(run, n):
    assert forged_checkpoints(run, n) >= 0.3 * n


@few_or_many
def test_metrics(run, n):
    assert damaged_metrics(run, n) >= 0.1 * n


@few_or_many
def test_configs_of_programs(program, n):
    assert damaged_configs(program, n) >= 0.6 * n


@few_or_many
def test_weights_of_programs(program, n):
    assert damaged_weights(program, n) >= 0.6 * n


@few_or_many
def test_configs_of_programs_whose_checksum_was_made_to_fit(program, n):
    assert forged_configs(program, n if n == FEW else MANY // 4) >= 0.02 * n


@few_or_many
def test_traces(trace_text, tmp_path, n):
    assert damaged_traces(trace_text, tmp_path / "trace.json", n) >= 0.3 * n


@few_or_many
def test_configurations(tmp_path, n):
    assert damaged_yaml(tmp_path / "config.yaml", n) >= 0.2 * n


@few_or_many
def test_records(tmp_path: Path, n):
    # Most of a record is numbers, and a number for a number is a record again.
    assert damaged_records(tmp_path / "record.json", n) >= 0.05 * n
