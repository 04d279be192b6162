"""Plug-ins that are faulty: one sentence names each, and everything else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import icgd
from icgd.base.construction import registered
from icgd.base.plugins import load_plugin
from icgd.cli import app

FAULTS = {
    "syntax": ("def f(:\n", "SyntaxError"),
    "missing": ("import no_such_module_here\n", "ModuleNotFoundError: No module named"),
    "name": ("from icgd import NoSuchName\n", "ImportError: cannot import name"),
    "raises": ("x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero (raises.py, line 2)"),
    "silent": ("raise RuntimeError\n", "RuntimeError (silent.py, line 1)"),
    "leaves": ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
    "refused": (
        "import icgd\nicgd.register(icgd.Construction(name='looped_newton', problem=icgd.Network, "
        "optimizer=icgd.SGD, build=print))\n",
        "be new: the package has a construction of that name",
    ),
    "nothing": ("import icgd\nicgd.register(icgd.Network)\n", "be an icgd.Construction"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("as_file", [True, False])
def test_a_faulty_plug_in_is_one_line(
    fault: str, as_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, wanted = FAULTS[fault]
    (tmp_path / f"{fault}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, fault, raising=False)
    answer = CliRunner().invoke(
        app, ["--plugin", f"{fault}.py" if as_file else fault, "cost", "--list"]
    )
    assert answer.exit_code == 2, answer.output
    assert answer.stderr.count("\n") == 1
    assert "`--plugin` must be a module" in answer.stderr
    assert f"Got {fault!r}" in answer.stderr.replace(".py'", "'")
    assert wanted in answer.stderr
    assert fault not in sys.modules


def test_what_a_faulty_plug_in_registered_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_done.py").write_text(
        "import icgd\n"
        "class Mine: pass\n"
        "icgd.register(icgd.Construction(name='half', problem=Mine, optimizer=Mine, build=print))\n"
        "raise OSError('gone')\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(icgd.InvalidParameter, match="OSError: gone"):
        load_plugin(str(tmp_path / "half_done.py"))
    assert "half" not in registered()


def test_a_plug_in_may_not_take_the_place_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("")
    import json

    with pytest.raises(icgd.InvalidParameter, match="there is a module of that name"):
        load_plugin(str(tmp_path / "json.py"))
    assert sys.modules["json"] is json


def test_a_plug_in_finds_the_files_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_it.py").write_text("there = 1\n")
    (tmp_path / "needs_beside.py").write_text("from beside_it import there\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    load_plugin(str(tmp_path / "needs_beside.py"))
    assert sys.modules.pop("needs_beside").there == 1
    del sys.modules["beside_it"]


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which two packages are installed, one of them faulty."""
    for name, source in (
        ("broken", "import icgd\nraise ValueError('half of it is missing')\n"),
        (
            "sound",
            "import icgd\nclass Mine: pass\n"
            "icgd.register(icgd.Construction(name='sound_one', problem=Mine, optimizer=Mine, build=print))\n",
        ),
    ):
        (tmp_path / f"{name}_plugin.py").write_text(source)
        about = tmp_path / f"{name}_plugin-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n"
        )
        (about / "entry_points.txt").write_text(f"[icgd.constructions]\n{name} = {name}_plugin\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


WARNING = (
    "icgd: warning: The plug-in 'broken' (broken_plugin) of the package broken-plugin is left out: "
    "ValueError: half of it is missing (broken_plugin.py, line 2). Mend or uninstall it.\n"
)


def test_an_installed_plug_in_that_is_faulty_breaks_nothing(
    installed: dict[str, str], tmp_path: Path
) -> None:
    def icgd_command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "icgd", *words],
            env=installed,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    for words in (["--help"], ["run", "--help"], ["cost", "--help"], ["--version"]):
        done = icgd_command(*words)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    listed = icgd_command("cost", "--list")
    assert (listed.returncode, listed.stderr) == (0, WARNING)
    assert "sound_one" in listed.stdout
    assert "softmax_cot_network" in listed.stdout


def test_python_warns_once_of_an_installed_plug_in_that_is_faulty(
    installed: dict[str, str], tmp_path: Path
) -> None:
    code = (
        "import warnings, icgd\n"
        "from icgd.base.construction import constructions\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(0.1))\n"
        "    icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(0.1))\n"
        "print(len(seen), 'broken' in str(seen[0].message), 'sound_one' in constructions())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=installed,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "True", "True"]
