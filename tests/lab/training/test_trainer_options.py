"""Options of the trainer: TensorBoard, compilation, weights of another run, the deviation they start with."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn
from typer.testing import CliRunner

import icgd
from icgd.cli import app
from icgd.errors import InvalidParameter
from icgd.lab.models.build import build_model
from icgd.lab.models.config import ModelConfig
from icgd.lab.training.checkpoints import NAME, load_checkpoint
from icgd.lab.training.config import make_config
from icgd.lab.training.journal import METRICS
from icgd.lab.training.trainer import check_device, train

SMALL = {
    "model": {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 4},
    "task": {"name": "noisy_linear_regression", "n_dims": 2, "noise_std": 0.5},
    "training": {
        "batch_size": 4,
        "learning_rate": 0.01,
        "train_steps": 6,
        "n_points": 4,
        "log_every_steps": 2,
        "threads": 1,
    },
}


def config(directory, **training):
    data = {**SMALL, "out_dir": str(directory), "training": {**SMALL["training"], **training}}
    return make_config(data)


def lines(directory) -> list[dict]:
    return [json.loads(line) for line in (directory / METRICS).read_text().splitlines()]


def weights(directory) -> dict[str, torch.Tensor]:
    return {k: v for k, v in load_file(directory / NAME).items() if k.startswith("model.")}


# -- TensorBoard -----------------------------------------------------------------------------------------


def scalars(directory) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would show."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(directory / "tensorboard")).Reload()
    return {tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_tensorboard_shows_the_numbers_of_the_metrics(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    train(config(tmp_path, tensorboard=True, schedule="cosine"))
    shown, told = scalars(tmp_path), lines(tmp_path)
    assert set(shown) == {"loss", "lr"}
    for tag, points in shown.items():
        assert [step for step, _ in points] == [line["step"] for line in told] == [2, 4, 6]
        assert [value for _, value in points] == pytest.approx([line[tag] for line in told])


def test_a_tensorboard_that_does_not_import_is_refused_before_anything_is_written(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # import raises ImportError
    with pytest.raises(InvalidParameter, match=r"training\.tensorboard"):
        train(config(tmp_path / "run", tensorboard=True))
    assert not (tmp_path / "run").exists()


def test_tensorboard_goes_on_with_the_run(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    train(config(tmp_path, tensorboard=True), stop_after=3)
    train(config(tmp_path, tensorboard=True))
    for tag, points in scalars(tmp_path).items():
        assert [step for step, _ in points] == [2, 4, 6]
        assert [value for _, value in points] == pytest.approx([x[tag] for x in lines(tmp_path)])


def test_without_it_nothing_is_written_for_tensorboard(tmp_path):
    train(config(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == [NAME, METRICS]


def test_looking_on_changes_no_weight(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    for name, wanted in (("with", True), ("without", False)):
        train(config(tmp_path / name, tensorboard=wanted))
    first, second = weights(tmp_path / "with"), weights(tmp_path / "without")
    assert all(torch.equal(first[k], second[k]) for k in first)


# -- compilation -----------------------------------------------------------------------------------------


@pytest.fixture
def compiler() -> None:
    """Compiled models need a C++ compiler, which PyTorch looks for when it first needs one."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        found = get_cpp_compiler()
    except InvalidCxxCompiler:
        pytest.skip("PyTorch finds no C++ compiler")
    if shutil.which(found) is None:
        pytest.skip(f"there is no {found}")


@pytest.mark.slow
def test_compiled_steps_have_the_losses_of_plain_ones(tmp_path, compiler):
    """In a process of its own: the checks of shapes that tests switch on would cut the graph in pieces."""
    options = {"train_steps": 3, "log_every_steps": 1}
    train(config(tmp_path / "plain", **options))
    wanted = config(tmp_path / "compiled", compile=True, **options)
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(wanted.model_dump(mode="json")))
    subprocess.run(
        [sys.executable, "-m", "icgd", "train", str(tmp_path / "c.yaml")],
        check=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    plain, compiled = ([x["loss"] for x in lines(tmp_path / d)] for d in ("plain", "compiled"))
    assert len(set(plain)) == 3
    assert compiled == pytest.approx(plain, abs=1e-4)
    # A checkpoint knows nothing of it: either run may go on as the other.
    assert weights(tmp_path / "plain").keys() == weights(tmp_path / "compiled").keys()
    longer = train(config(tmp_path / "compiled", train_steps=4, log_every_steps=1))
    assert longer.step == 4


def test_compilation_is_asked_for_and_only_then(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda module: asked.append(module) or module)
    train(config(tmp_path / "plain"))
    assert asked == []
    train(config(tmp_path / "compiled", compile=True))
    assert len(asked) == 1


# -- weights of another run ------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path):
    """A finished run, and a file of the same settings."""
    train(config(tmp_path / "first"))
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return tmp_path


def command(where, *options):
    changes = [f"--set=out_dir={where / 'second'}", *(f"--set={o}" for o in options)]
    return ["train", str(where / "small.yaml"), *changes, f"--from={where / 'first'}"]


def test_from_begins_with_the_weights_of_another_run(source):
    """So small a step that no number moves: what is written is what was read."""
    still = "training.learning_rate=1e-30"
    done = CliRunner().invoke(app, command(source, still, "training.seed=5"))
    assert done.exit_code == 0, done.output
    first, second = weights(source / "first"), weights(source / "second")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[k], second[k]) for k in first)
    fresh = load_checkpoint(source / "second")
    assert (fresh.step, fresh.config.training.seed) == (6, 5)  # steps and data are its own


def test_from_changes_where_a_run_ends(source):
    CliRunner().invoke(app, command(source))
    train(config(source / "alone"))
    first, second = weights(source / "alone"), weights(source / "second")
    assert not any(torch.equal(first[k], second[k]) for k in first)


def test_a_run_that_has_begun_goes_on_with_its_own_weights(source):
    train(config(source / "second", seed=1), stop_after=3)
    done = CliRunner().invoke(app, command(source, "training.seed=1"))
    assert done.exit_code == 0, done.output
    train(config(source / "alone", seed=1))
    first, second = weights(source / "alone"), weights(source / "second")
    assert all(torch.equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize(
    ("option", "message"),
    [("model.n_embd=16", "has shape"), ("model.n_layer=2", "on one side only")],
)
def test_weights_of_another_model_are_refused(source, option, message):
    said = CliRunner().invoke(app, command(source, option))
    assert said.exit_code == 2
    assert message in said.stderr
    assert len(said.stderr.splitlines()) == 1
    assert not (source / "second" / NAME).exists()


def test_from_nowhere_is_refused(source):
    arguments = ["train", str(source / "small.yaml"), f"--set=out_dir={source / 'second'}"]
    said = CliRunner().invoke(app, [*arguments, f"--from={source / 'nowhere'}"])
    assert said.exit_code == 2
    assert "There is no checkpoint" in said.stderr
    assert not (source / "second").exists()


# -- the deviation of initial weights --------------------------------------------------------------------

KINDS = {
    "standard": {},
    "looped": {"loops": 2},
    "algoformer": {"loops": 2, "n_pre": 2, "n_post": 3},
}


def drawn(kind: str, init_std: float) -> dict[str, torch.Tensor]:
    made = ModelConfig(
        kind=kind, n_layer=2, n_head=2, n_embd=8, n_positions=4, init_std=init_std, **KINDS[kind]
    )
    generator = torch.Generator().manual_seed(7)
    return build_model(made, 3, 1, generator=generator).state_dict()


@pytest.mark.parametrize("kind", list(KINDS))
def test_initial_weights_are_proportional_to_their_deviation(kind):
    """Powers of two, by which numbers are scaled without rounding."""
    one, eight = drawn(kind, 0.0625), drawn(kind, 0.5)
    scaled = [k for k in one if "W_" in k or k.endswith("positions")]
    # Four matrices a block, and the positions.
    blocks = len({k.rsplit(".", 1)[0] for k in scaled}) - 1
    assert len(scaled) == 4 * blocks + 1 == 4 * (7 if kind == "algoformer" else 2) + 1
    for name, value in one.items():
        assert torch.equal(eight[name], (8 if name in scaled else 1) * value), name
        assert name not in scaled or float(value.abs().max()) > 0


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_writes_to_the_residual_stream_starts_smaller(kind):
    """By the root of twice the blocks of its own stack, drawn from the same standard normals."""
    for name, value in drawn(kind, 1.0).items():
        layers = {"pre": 2, "post": 3}.get(name.split(".")[0], 2)
        expected = (2 * layers) ** -0.5 if name.endswith(("W_O", "W_out")) else 1.0
        if "W_" in name:
            n = value.numel()
            # The deviation of n normals is off by 1 / sqrt(2 n) of itself, seldom by five times that.
            assert abs(float(value.std()) / expected - 1) < 5 / (2 * n) ** 0.5


def test_gpt2s_deviation_is_the_default():
    assert ModelConfig().init_std == 0.02


@pytest.mark.parametrize("bad", [0.0, -0.02, float("nan"), float("inf"), 10.0])
def test_a_deviation_must_be_positive_and_sensible(bad):
    with pytest.raises(icgd.InvalidParameter, match="`init_std` must lie between 0 and 10"):
        ModelConfig(init_std=bad)


def test_on_the_command_line_a_bad_deviation_is_one_line(tmp_path):
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    options = [f"--set=out_dir={tmp_path / 'run'}", "--set=model.init_std=0.0"]
    said = CliRunner().invoke(app, ["train", str(tmp_path / "small.yaml"), *options])
    assert said.exit_code == 2
    assert "init_std" in said.stderr
    assert len(said.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_weights_that_are_not_finite_are_never_saved(tmp_path, monkeypatch):
    """An infinite gradient under a finite loss: the step is taken, but the checkpoint before it stays."""
    made = config(tmp_path, save_every_steps=1, train_steps=4, grad_clip=1.0)
    train(made, stop_after=2)

    def blow_up(parameters, norm):
        for parameter in parameters:
            parameter.grad.fill_(math.inf)

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", blow_up)
    with pytest.raises(
        icgd.AssumptionViolated, match=r"step 3 is nan.*last good checkpoint is kept"
    ):
        train(made)
    kept = load_checkpoint(tmp_path)
    assert kept.step == 2
    assert all(bool(value.isfinite().all()) for value in kept.model.values())


@pytest.mark.parametrize("name", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there_is_one_clear_error(name):
    with pytest.raises(icgd.InvalidParameter, match="be a device of this machine"):
        check_device(name)
    check_device("cpu")


def test_a_cosine_schedule_cannot_be_made_longer(tmp_path):
    made = config(tmp_path, schedule="cosine", train_steps=2)
    train(made)
    longer = made.model_copy(
        update={"training": made.training.model_copy(update={"train_steps": 4})}
    )
    with pytest.raises(icgd.InvalidFile, match=r"training\.train_steps = 2"):
        train(longer)


def test_a_board_has_every_step_once_after_an_interruption(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    made = config(tmp_path, tensorboard=True, train_steps=6, log_every_steps=2, save_every_steps=3)

    def stop(done, total, loss):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(made, report=stop)
    train(made)
    board = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert [event.step for event in board.Scalars("loss")] == [2, 4, 6]
