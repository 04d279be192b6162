"""Runs the tests of the pure JavaScript modules with node's own runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.pages.viewer import samples

HERE = Path(__file__).parent
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="no node on this machine")
@pytest.mark.parametrize("script", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name)
def test_modules(script, tmp_path):
    network = samples.network()
    (tmp_path / "network.json").write_text(samples.text(network))
    (tmp_path / "replaced.json").write_text(samples.text(samples.replaced()))
    (tmp_path / "arrays.json").write_text(json.dumps(network["arrays"]))
    done = subprocess.run(
        [str(NODE), "--test", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "ICGD_SAMPLES": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
