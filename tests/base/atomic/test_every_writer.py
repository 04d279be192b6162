"""Files are written through `icgd.base.atomic` and in no other way."""

from __future__ import annotations

import re
from pathlib import Path

import icgd

SOURCE = Path(icgd.__file__).parent
MOVES = re.compile(
    r"\bos\.(replace|rename)\(|\.rename\((?!columns)|\b(np|numpy)\.save|\btorch\.save|\bsave_file\("
)
WRITES = re.compile(r"\.(write_text|write_bytes)\(|open\([^)]*[\"'][wax]b?\+?[\"']")
GATHERS = {
    "cli/run/compiled.py",
    "cli/run/machine.py",
    "cli/run/network.py",
    "cli/train_command.py",
    "pages/report/write.py",
    "transformer/program/files.py",
}
"""Modules that write to a staging directory, whose files `staged` puts on the disk and moves in together."""
APPENDS = {"lab/training/journal.py"}
"""A journal grows line by line; it is written whole when a run starts and synced before a checkpoint."""


def test_nothing_else_writes_or_moves_files() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("base/atomic/"):
            continue
        text = path.read_text(encoding="utf-8")
        assert not MOVES.search(text), name
        if WRITES.search(text):
            assert name in GATHERS | APPENDS, name
            assert name in APPENDS or re.search(r"\bstaged(_together)?\(", text), name
