"""Whatever file operation fails or is the last one: the old state or the new one, never a mix."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
import torch
from safetensors.torch import load_file
from tests.robustness.faults import (
    DONE,
    KILLED,
    NOT_REACHED,
    REFUSED,
    Fault,
    on_a_full_disk,
    undisturbed,
    with_fault,
)
from tests.robustness.writers import CONFIG, WRITERS, seen_by_a_reader

from icgd.lab.training.checkpoints import NAME
from icgd.lab.training.journal import METRICS
from icgd.lab.training.trainer import train

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")
MOST_OPERATIONS = 400


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Children of a process with threads would wait for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=WRITERS)
def writer(request):
    return WRITERS[request.param]


class Stage:
    """A directory in its old state, as often as it is wanted, and what both states look like."""

    def __init__(self, writer, root):
        self.writer, self.directory, self.kept = writer, root / "work", root / "kept"
        writer.write(self.kept, 0)
        self.old = self.states(self.kept)
        self.reset()
        assert undisturbed(self.write) == DONE
        self.new = self.states(self.directory)
        assert all(self.old[part] != self.new[part] for part in writer.parts)

    def write(self):
        self.writer.write(self.directory, 1)

    def reset(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.copytree(self.kept, self.directory)

    def states(self, directory):
        return {part: seen_by_a_reader(directory / part) for part in self.writer.parts}

    def check(self, code):
        """Old or new, and the next writer finds nothing in its way and leaves nothing behind."""
        assert code in (DONE, REFUSED, KILLED), code
        found = self.states(self.directory)
        for part, state in found.items():
            assert state in (self.old[part], self.new[part])
        if code == DONE:
            assert found == self.new
        assert undisturbed(self.write) == DONE
        assert self.states(self.directory) == self.new
        assert not [p for p in self.directory.rglob(".*") if p.is_file() or p.is_dir()]

    def count(self):
        """How many operations writing takes."""
        for at in range(1, MOST_OPERATIONS):
            self.reset()
            if with_fault(self.write, Fault(self.directory, at, "fail")) == NOT_REACHED:
                return at - 1
        raise AssertionError("it never ends")


@pytest.mark.parametrize("kind", ["fail", "die"])
def test_a_fault_at_a_few_operations(writer, tmp_path, kind):
    stage = Stage(writer, tmp_path)
    for at in (3, 11):
        stage.reset()
        code = with_fault(stage.write, Fault(stage.directory, at, kind))
        if code != NOT_REACHED:
            stage.check(code)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fail", "die"])
def test_a_fault_at_every_operation(writer, tmp_path, kind):
    stage = Stage(writer, tmp_path)
    n = stage.count()
    assert n >= 5
    for at in range(1, n + 1):
        stage.reset()
        stage.check(with_fault(stage.write, Fault(stage.directory, at, kind)))


def test_a_full_disk(writer, tmp_path):
    """No room for a byte, and room for the small files only."""
    stage = Stage(writer, tmp_path)
    for most_bytes in (0, 1000):
        stage.reset()
        code = on_a_full_disk(stage.write, most_bytes)
        assert code == REFUSED
        assert stage.states(stage.directory) == stage.old
        stage.check(code)


# -- training ----------------------------------------------------------------------------------------


def _outcome(directory):
    weights = load_file(directory / NAME)
    steps = [json.loads(line)["step"] for line in (directory / METRICS).read_text().splitlines()]
    return weights, steps, sorted(p.name for p in directory.iterdir())


def _same(first, second):
    weights, others = first[0], second[0]
    equal = weights.keys() == others.keys() and all(
        torch.equal(weights[k], others[k]) for k in weights
    )
    return equal and first[1:] == second[1:]


def _killed_and_resumed(tmp_path, places):
    whole = CONFIG.model_copy(update={"out_dir": str(tmp_path / "whole")})
    train(whole)  # in this process: what it imports the children need not
    expected = _outcome(tmp_path / "whole")
    assert expected[2] == sorted([NAME, METRICS, "step_2.safetensors", "step_4.safetensors"])
    for at in places:
        directory = tmp_path / f"killed-{at}"
        config = whole.model_copy(update={"out_dir": str(directory)})

        def work(config=config):
            train(config)

        code = with_fault(work, Fault(directory, at, "die"))
        if code == NOT_REACHED:
            return at - 1
        assert code == KILLED
        assert undisturbed(work) == DONE
        assert _same(_outcome(directory), expected), at
        shutil.rmtree(directory)
    return None


def test_a_training_killed_at_a_few_operations_ends_in_the_same_files(tmp_path):
    _killed_and_resumed(tmp_path, (17, 31))


@pytest.mark.slow
def test_a_training_killed_at_every_operation_ends_in_the_same_files(tmp_path):
    """Among them the moment between a checkpoint and its copy under the step's name."""
    n = _killed_and_resumed(tmp_path, range(1, MOST_OPERATIONS))
    assert n is not None
    assert n >= 30
