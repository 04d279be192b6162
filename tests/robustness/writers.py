"""Everything that writes several bytes for a user: an old state, a new one, and how to read what is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import torch
from tests.pages.report.sample_results import network as network_result

import icgd
from icgd.base.atomic import finish_move, staged, write_text
from icgd.cli.run.network import write_result
from icgd.cli.run.recording import Recording
from icgd.cli.tables import make_table
from icgd.lab.models.build import build_model
from icgd.lab.training.checkpoints import save_checkpoint
from icgd.lab.training.config import make_config
from icgd.lab.training.trainer import make_optimizer
from icgd.pages.report import PaperFigures, write_comparison

State = dict[str, bytes]


@dataclass(frozen=True)
class Writer:
    """`write(directory, 0)` makes the old state, `write(directory, 1)` replaces it by the new one.

    parts  directories, below the one given, that each change as a whole
    """

    name: str
    write: Callable[[Path, int], object]
    parts: tuple[str, ...] = (".",)


def seen_by_a_reader(directory: Path) -> State:
    """All files that are not hidden, after the recovery every reader begins with."""
    if not directory.is_dir():
        return {}
    finish_move(directory)
    return {p.name: p.read_bytes() for p in directory.iterdir() if p.is_file() and p.name[0] != "."}


def _one_file(directory: Path, version: int) -> None:
    write_text(directory / "a.txt", f"version {version}\n" * 1000)


def _set_of_files(directory: Path, version: int) -> None:
    with staged(directory, remove=() if version == 0 else ["old.txt"]) as place:
        for name in ("a.txt", "b.txt", "old.txt" if version == 0 else "new.txt"):
            (place / name).write_text(f"version {version} of {name}\n" * 1000)


def _program(directory: Path, version: int) -> None:
    icgd.compile(icgd.Ridge(2, 0.1), icgd.GD(lr=0.1 + version)).save_pretrained(directory)


CONFIG = make_config(
    {
        "model": {"n_layer": 1, "n_head": 1, "n_embd": 4, "n_positions": 4},
        "task": {"name": "noisy_linear_regression", "n_dims": 2, "noise_std": 0.5},
        "training": {
            "batch_size": 2,
            "train_steps": 4,
            "n_points": 3,
            "threads": 1,
            "log_every_steps": 1,
            "save_every_steps": 2,
            "keep_every_steps": 2,
        },
    }
)


def _checkpoint(directory: Path, version: int) -> None:
    torch.manual_seed(version)
    model = build_model(CONFIG.model, 2, 1)
    save_checkpoint(directory, version + 1, CONFIG, model, make_optimizer(CONFIG, model))


def _results(directory: Path, version: int) -> None:
    """What `icgd run --out` writes; the old run was recorded, the new one was not."""
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [1.0, 3.0, 2.0 + version]})
    table = make_table(frame, ["y"], standardize=True)
    result = {**network_result(), "seconds": float(version)}
    if version == 0:
        with staged(directory) as place:
            (place / "trace.json").write_text("{}")
    weights = {"layer1.weight": torch.full((3, 2), float(version))}
    with patch("icgd.pages.report.write_report", _report_files):
        write_result(directory, result, weights, table, Recording())


def _report_files(result: dict[str, Any], directory: Path) -> None:
    """In place of figures, which take long to draw."""
    for name in ("report.html", "loss.png", "error.png", "cost.png"):
        (directory / name).write_text(f"{name} after {result['seconds']} seconds\n" * 100)


def _report(directory: Path, version: int) -> None:
    page = f"page {version}\n" * 1000
    drawn = {f"{name}.svg": f"{name} {version}\n".encode() * 200 for name in ("loss", "cost")}
    directory.mkdir(parents=True, exist_ok=True)
    with (
        patch("icgd.pages.report.write.rendered_page", lambda *_: page),
        patch("icgd.pages.report.write.paper_figures", lambda *_: drawn),
    ):
        figures = PaperFigures(directory / "figures", ("svg",))
        write_comparison([network_result()], directory / "page.html", figures=figures)


WRITERS = {
    writer.name: writer
    for writer in (
        Writer("one file", _one_file),
        Writer("set of files", _set_of_files),
        Writer("save_pretrained", _program),
        Writer("checkpoint", _checkpoint),
        Writer("run --out", _results),
        Writer("report", _report, (".", "figures")),
    )
}
