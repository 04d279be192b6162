"""Building a C++ source into a library of torch operations, once per machine, and loading it.

What is built is kept where torch keeps its extensions (TORCH_EXTENSIONS_DIR), under a digest of the source, the
compiler, its flags, torch and the processor: a library is only ever loaded where it was built for. Processes
that want the same one wait for each other.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

from icgd.base.atomic.lock import only_writer
from icgd.base.atomic.whole_file import write_whole

FLAGS = (
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-std=c++20",
    "-fPIC",
    "-w",
)
"""None changes what NaN and infinity mean or the order of operations; a fused multiply-add rounds less."""
PATIENCE = 300.0
"""Seconds a compiler gets."""


class CannotBuild(Exception):
    """There is no library, and why, as a part of a sentence."""


def load_library(source: Path) -> None:
    """Make the torch operations of a C++ source available, building it if that was never done here."""
    try:
        torch.ops.load_library(str(built_library(source)))
    except CannotBuild:
        raise
    except (
        Exception
    ) as error:  # a full disk, a damaged cache: a run without kernels is slower, not wrong
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise CannotBuild(f"building or loading them failed ({first})") from error


def built_library(source: Path) -> Path:
    """The library of a C++ source, from the cache if it is there."""
    command, version = _command()
    parts = [source.read_text(), *command, version, torch.__version__, _processor()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    library = _cache() / f"icgd_{source.stem}_{digest}" / f"{source.stem}.so"
    if not library.is_file():
        with only_writer(library.parent, wait=True):
            if not library.is_file():  # another process may have built it meanwhile
                write_whole(library, lambda part: _compile(command, source, part))
    return library


def _command() -> tuple[list[str], str]:
    """The compiler with its flags, and its version."""
    compiler = os.environ.get("CXX") or "c++"
    try:
        done = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, check=True, timeout=PATIENCE
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"no C++ compiler answers to {compiler!r}") from error
    flags = ["-shared"]
    if sys.platform == "darwin":
        flags = ["-dynamiclib", "-undefined", "dynamic_lookup"]
    if platform.machine() in ("x86_64", "AMD64"):
        flags.append("-mprefer-vector-width=512")
    abi = getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True)
    return [compiler, *FLAGS, *flags, f"-D_GLIBCXX_USE_CXX11_ABI={int(abi)}"], done.stdout


def _cache() -> Path:
    """Where torch would build an extension."""
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    if given:
        return Path(given)
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "torch_extensions"


def _processor() -> str:
    """What -march=native looks at."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))


def _compile(command: list[str], source: Path, library: Path) -> None:
    from torch.utils.cpp_extension import include_paths, library_paths  # slow to import

    places = [f"-I{path}" for path in include_paths()] + [f"-L{path}" for path in library_paths()]
    whole = [*command, str(source), "-o", str(library), *places, "-ltorch", "-ltorch_cpu", "-lc10"]
    try:
        done = subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"the compiler did not finish ({error})") from error
    if done.returncode != 0:
        complaint = next((line for line in done.stderr.splitlines() if "error" in line), "")
        raise CannotBuild(f"the compiler failed ({complaint.strip() or command[0]})")
