"""Libraries are built once, found again, and refused with a reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from icgd.transformer.gadgets.native.library import CannotBuild, built_library, load_library

HAS_COMPILER = shutil.which(os.environ.get("CXX") or "c++") is not None
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="no C++ compiler here")
SMALL = 'extern "C" int answer() { return 42; }\n'


@needs_compiler
def test_a_library_is_built_once_and_anew_when_its_source_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    source = tmp_path / "small.cpp"
    source.write_text(SMALL)
    first = built_library(source)
    stamp = first.stat().st_mtime_ns
    assert built_library(source) == first
    assert first.stat().st_mtime_ns == stamp
    assert [path.name for path in first.parent.iterdir()] == ["small.so"]
    source.write_text(SMALL.replace("42", "43"))
    assert built_library(source) != first


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    source = tmp_path / "small.cpp"
    source.write_text(SMALL)
    with pytest.raises(CannotBuild, match="no C\\+\\+ compiler answers to 'no-such-compiler'"):
        load_library(source)


@needs_compiler
def test_what_the_compiler_refuses_is_quoted_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    source = tmp_path / "small.cpp"
    source.write_text("int answer() { return unknown_name; }\n")
    with pytest.raises(CannotBuild, match=r"the compiler failed .*unknown_name"):
        load_library(source)
    assert not list((tmp_path / "cache").rglob("*.so"))


@needs_compiler
def test_a_damaged_library_and_a_place_nobody_can_write_are_reasons(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    source = tmp_path / "small.cpp"
    source.write_text(SMALL)
    built_library(source).write_bytes(b"no library")
    with pytest.raises(CannotBuild, match="building or loading them failed"):
        load_library(source)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "file"))
    with pytest.raises(CannotBuild, match="building or loading them failed"):
        load_library(source)


CODE = """
import sys, warnings
import torch
from icgd.transformer.gadgets.machine_heads.heads import Heads
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    values = [float(Heads("float").read(torch.tensor([3.0], dtype=torch.float64))) for _ in range(3)]
assert all(abs(value - 3) < 1e-14 for value in values)
print([str(w.message) for w in seen])
try:
    Heads("float", kernels="cpp")
except ValueError as error:
    print(error)
"""


def test_without_a_compiler_heads_run_in_torch_and_say_so_once():
    environment = {**os.environ, "CXX": "no-such-compiler"}
    run = [sys.executable, "-c", CODE]
    done = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)
    warned, refused = done.stdout.splitlines()
    assert warned == (
        "[\"The C++ heads cannot be had: no C++ compiler answers to 'no-such-compiler'. "
        'Heads run as torch operations, about ten times slower."]'
    )
    assert "Install a C++ compiler, or choose kernels='torch'." in refused
    assert done.stderr == ""
