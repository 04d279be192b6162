"""Training is reproducible to the last bit: killed, resumed, or shared by two processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

import icgd
from icgd.lab.experiments.measures import evaluation_prompts, load_run, predictions
from icgd.lab.tasks import build_task
from icgd.lab.training.checkpoints import NAME, load_checkpoint
from icgd.lab.training.config import make_config
from icgd.lab.training.journal import METRICS
from icgd.lab.training.trainer import data_generator, sample_step, train

SMALL = {
    "model": {"n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 8},
    "task": {"name": "noisy_linear_regression", "n_dims": 3, "noise_std": 0.5},
    "training": {
        "batch_size": 8,
        "learning_rate": 0.01,
        "train_steps": 60,
        "n_points": 6,
        "save_every_steps": 7,
        "log_every_steps": 10,
        "threads": 1,
    },
}


def config(directory, **training):
    data = {**SMALL, "out_dir": str(directory), "training": {**SMALL["training"], **training}}
    return make_config(data)


def weights(directory):
    return {
        k: v
        for k, v in load_file(directory / NAME).items()
        if k.startswith(("model.", "optimizer."))
    }


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_a_run_that_stops_and_goes_on_ends_in_the_same_bits(tmp_path, optimizer):
    options = {"optimizer": optimizer, "schedule": "cosine", "warmup_steps": 5, "grad_clip": 1.0}
    whole = train(config(tmp_path / "whole", **options))
    for stop in (1, 7, 22, 33):
        train(config(tmp_path / "parts", **options), stop_after=stop)
    assert load_checkpoint(tmp_path / "parts").step == 60
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert whole.step == 60
    first, second = ((tmp_path / d / METRICS).read_text().splitlines() for d in ("whole", "parts"))
    assert [json.loads(line)["step"] for line in first] == [10, 20, 30, 40, 50, 60]
    assert [json.loads(line)["step"] for line in second] == [10, 20, 30, 40, 50, 60]


SCRIPT = """
import json, sys
from icgd.lab.training.config import make_config
from icgd.lab.training.journal import METRICS
from icgd.lab.training.trainer import train
train(make_config(json.loads(sys.argv[1])))
"""


def start_fork(made):
    """The number of a process that trains; it starts as a fork of this one, which has all imports."""
    child = os.fork()
    if child == 0:
        try:
            train(made)
        finally:
            os._exit(0)
    return child


@pytest.fixture(scope="module")
def never_killed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    train(config(directory, train_steps=120))
    return weights(directory)


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_a_random_moment(tmp_path, never_killed, seed):
    """kill -9, then the same again: bit-identical weights, and never a broken checkpoint."""
    made, chance = config(tmp_path / "killed", train_steps=120), random.Random(seed)
    child, ended = start_fork(made), False
    try:
        while not ended and not (tmp_path / "killed" / NAME).is_file():
            ended = os.waitpid(child, os.WNOHANG)[0] == child
            time.sleep(0.01)
        time.sleep(chance.random() * 0.4)
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert 0 < load_checkpoint(tmp_path / "killed").step <= 120
    train(made)
    assert same(never_killed, weights(tmp_path / "killed"))
    left = sorted(p.name for p in (tmp_path / "killed").iterdir() if not p.name.startswith("."))
    assert left == [NAME, METRICS]


def test_two_processes_are_one(tmp_path):
    """The same global batch on two ranks: within 1e-5 after 50 steps."""
    alone = config(tmp_path / "alone", train_steps=50)
    shared = config(tmp_path / "shared", train_steps=50)
    train(alone)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            str(tmp_path / "script.py"),
            shared.to_json(),
        ],
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    a, b = weights(tmp_path / "alone"), weights(tmp_path / "shared")
    assert a.keys() == b.keys()
    for name in a:
        if not name.startswith("model."):
            continue
        mine, other = a[name], b[name]
        if name.endswith("b_QKV"):
            # Keys' biases move no softmax: their gradient is rounding alone, which Adam makes large.
            width = mine.shape[0] // 3
            mine, other = (torch.cat([v[:width], v[2 * width :]]) for v in (mine, other))
        assert float((mine - other).abs().max()) < 1e-5, name
    (alone_model, task, _), (shared_model, _, _) = (
        load_run(tmp_path / d) for d in ("alone", "shared")
    )
    prompts = evaluation_prompts(task, 6, 64, 0)
    apart = predictions(alone_model, prompts) - predictions(shared_model, prompts)
    assert float(apart.abs().max()) < 1e-5
    logged = (tmp_path / "shared" / METRICS).read_text().splitlines()
    assert [json.loads(line)["step"] for line in logged] == [10, 20, 30, 40, 50]


def test_data_depend_on_seed_and_step_alone():
    made = config("unused")
    task = build_task(made.task)
    first, again = sample_step(task, made, 5), sample_step(task, made, 5)
    assert torch.equal(first.xs, again.xs)
    assert torch.equal(first.ys, again.ys)
    other = sample_step(task, made, 6)
    assert not torch.equal(first.xs, other.xs)
    # Another seed is another stream, not the same one shifted.
    draws = {
        float(torch.randn(1, generator=data_generator(seed, step)))
        for seed in range(20)
        for step in range(20)
    }
    assert len(draws) == 400


def test_a_curriculum_grows_points_and_dimensions():
    axis = {"start": 1, "end": 3, "inc": 1, "interval": 10}
    made = config("unused", curriculum={"dims": axis, "points": {**axis, "start": 2, "end": 6}})
    task = build_task(made.task)
    for step, (dims, points) in {0: (1, 2), 10: (2, 3), 35: (3, 5), 99: (3, 6)}.items():
        batch = sample_step(task, made, step)
        assert batch.n_points == points
        assert bool((batch.xs[..., dims:] == 0).all())
        assert bool((batch.xs[..., :dims] != 0).all())


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_checkpoint(tmp_path):
    made = config(tmp_path, learning_rate=1e30, optimizer="sgd", save_every_steps=1)
    with pytest.raises(
        icgd.AssumptionViolated, match=r"loss of step \d+ is .*learning_rate=5e\+29"
    ):
        train(made)
    assert load_checkpoint(tmp_path).step >= 1


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    train(config(tmp_path), stop_after=7)
    with pytest.raises(icgd.InvalidFile, match=r"training.seed = 0; asked for 1.*--restart"):
        train(config(tmp_path, seed=1))
    longer = train(config(tmp_path, train_steps=70, log_every_steps=5))
    assert longer.step == 70
    assert train(config(tmp_path, seed=1), restart=True).step == 60


@pytest.mark.parametrize("damage", [b"", b"\x10\x00", None])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    train(config(tmp_path), stop_after=7)
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes()[:-20] if damage is None else damage)
    with pytest.raises(icgd.InvalidFile, match="not a readable checkpoint"):
        train(config(tmp_path))


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    train(config(tmp_path), stop_after=7)
    before = (tmp_path / NAME).read_bytes()

    def full(path):
        if NAME in path.name:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("icgd.base.atomic.whole_file.sync_file", full)
    with pytest.raises(icgd.InvalidFile, match=r"No space left on device.*start the same command"):
        train(config(tmp_path))
    assert (tmp_path / NAME).read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [NAME, METRICS]


# -- what is in a directory ----------------------------------------------------------------------------


def test_two_trainings_into_one_directory_are_one_and_a_refusal(tmp_path):
    """Both begin before there is a checkpoint; the second is refused, and the first is as if alone."""
    from icgd.errors import DirectoryInUse

    refused = []

    def second(done, total, loss):
        if not refused:
            with pytest.raises(DirectoryInUse, match=r"another process \(process \d+ on ") as error:
                train(config(tmp_path / "both", seed=1, log_every_steps=1), restart=True)
            refused.append(str(error.value))

    train(config(tmp_path / "both", log_every_steps=1), report=second)
    assert len(refused) == 1
    assert str(tmp_path / "both") in refused[0]
    train(config(tmp_path / "alone", log_every_steps=1))
    assert same(weights(tmp_path / "both"), weights(tmp_path / "alone"))


def test_checkpoints_say_what_wrote_them_and_have_ordinary_modes(tmp_path):
    train(config(tmp_path), stop_after=3)
    assert load_checkpoint(tmp_path).versions == {
        "icgd": icgd.__version__,
        "torch": torch.__version__,
    }
    (tmp_path / "ordinary").write_text("")
    assert (tmp_path / NAME).stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize("seed", range(6))
def test_one_flipped_bit_of_a_tensor_is_refused(tmp_path, seed):
    train(config(tmp_path), stop_after=3)
    content = bytearray((tmp_path / NAME).read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    at = random.Random(seed).randrange(start, len(content))
    content[at] ^= 1 << seed
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(icgd.InvalidFile, match="does not match its checksum"):
        train(config(tmp_path))


def test_a_checkpoint_of_the_format_before_goes_on_with_a_warning(tmp_path):
    from safetensors.torch import save_file

    from icgd.base.atomic.tensors import read_tensors
    from icgd.lab.training.checkpoints import WITHOUT_CHECKSUM

    train(config(tmp_path), stop_after=7)
    tensors, metadata = read_tensors(tmp_path / NAME, "checkpoint")
    old = {k: metadata[k] for k in ("step", "config", "running")} | {"format": WITHOUT_CHECKSUM}
    save_file(tensors, tmp_path / NAME, metadata=old)
    with pytest.warns(UserWarning, match="has no checksum"):
        assert train(config(tmp_path)).step == 60
    train(config(tmp_path / "alone"))
    assert same(weights(tmp_path), weights(tmp_path / "alone"))


def test_going_on_with_another_torch_is_said(tmp_path, monkeypatch):
    train(config(tmp_path), stop_after=7)
    monkeypatch.setattr(torch, "__version__", "99.0")
    with pytest.warns(UserWarning, match=r"goes on with 99\.0"):
        train(config(tmp_path), stop_after=1)


def test_a_damaged_line_of_the_metrics_is_named(tmp_path):
    train(config(tmp_path), stop_after=30)
    path = tmp_path / METRICS
    content = path.read_bytes()
    path.write_bytes(content[:5] + b"\xff" + content[6:])
    with pytest.raises(icgd.InvalidFile, match=r"Line 1 of .*metrics\.jsonl is damaged. Delete"):
        train(config(tmp_path))
    path.write_bytes(content.split(b"\n", 1)[1])
    assert train(config(tmp_path)).step == 60


@pytest.mark.parametrize("tail", [b"\xff\xfe", b'{"step": 4', b"\x00" * 4096])
def test_what_a_killed_process_left_at_the_end_of_the_metrics_is_dropped(tmp_path, tail):
    train(config(tmp_path), stop_after=30)
    with (tmp_path / METRICS).open("ab") as file:
        file.write(tail)
    assert train(config(tmp_path)).step == 60
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20, 30, 40, 50, 60]


def test_weights_can_start_another_run(tmp_path):
    train(config(tmp_path / "first"), stop_after=20)
    second = config(tmp_path / "second", learning_rate=1e-9)
    train(second, stop_after=1, weights_of=tmp_path / "first")
    a, b = weights(tmp_path / "first"), weights(tmp_path / "second")
    names = [k for k in a if k.startswith("model.")]
    assert max(float((a[k] - b[k]).abs().max()) for k in names) < 1e-6
