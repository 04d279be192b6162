"""Make what the documentation shows: figures from measurements, and the theorem map from the code.

python -m tools.generate_docs            everything
python -m tools.generate_docs --map      docs/theorem_map.md only (no torch, a second)
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "docs" / "theorem_map.md"
FIGURES = ROOT / "docs" / "figures"

STATEMENT = re.compile(r"^\s*Statement: (\[[A-Z]+\] .+?)\s*$", re.MULTILINE)
DIFFERS = "Differs from the paper:"
MAX_TESTS = 4

# -- the theorem map ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A statement and the definition whose docstring names it."""

    statement: str
    module: str
    name: str
    docstring: str


def statements(source: Path = ROOT / "src") -> list[Entry]:
    """Every docstring line `Statement: [KEY] ...` of the package, in the order of the statements."""
    found = [
        Entry(match.group(1), module, name, docstring)
        for path in sorted(source.rglob("*.py"))
        for module in [".".join(path.relative_to(source).with_suffix("").parts)]
        for name, docstring in _docstrings(ast.parse(path.read_text(encoding="utf-8")))
        for match in STATEMENT.finditer(docstring)
    ]
    return sorted(found, key=lambda entry: (_natural(entry.statement), entry.module, entry.name))


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Qualified names and docstrings of all functions and classes."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                yield name, ast.get_docstring(child) or ""
                yield from walk(child, f"{name}.")
            else:
                yield from walk(child, prefix)

    return walk(tree, "")


def _natural(text: str) -> list[tuple[int, str]]:
    """Sort key by which Theorem 4.10 comes after Theorem 4.9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", text)]


def tests_naming(entry: Entry, sources: dict[str, str]) -> list[str]:
    """Test files that import the definition's home and contain its name.

    A private name is not imported by tests: it counts as named wherever its module is.
    """
    name = entry.name.split(".")[0]
    package = entry.module.rpartition(".")[0]
    home = re.compile(rf"\b{re.escape(entry.module)}\b|from {re.escape(package)} import")
    word = re.compile(rf"\b{re.escape(name)}\b")
    public = re.compile(rf"\bicgd\.{re.escape(name)}\b")

    def names(text: str) -> bool:
        here = bool(home.search(text))
        return bool(public.search(text)) or (here and (name[0] == "_" or bool(word.search(text))))

    return [path for path, text in sources.items() if names(text)]


def theorem_map() -> str:
    """The text of docs/theorem_map.md."""
    tests = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.name != "test_theorem_map.py"
    }
    lines = [
        "# Theorem map",
        "",
        "Which statement is implemented where, and which tests name that place. Generated from the",
        "docstrings by `make docs`; do not edit by hand. What differs from the paper stands in each",
        "docstring, and in [errata.md](errata.md) where the paper is wrong.",
        "",
        "| statement | implemented by | tests that name it |",
        "|---|---|---|",
    ]
    for entry in statements():
        naming = tests_naming(entry, tests)
        shown = ", ".join(f"`{path.removeprefix('tests/')}`" for path in naming[:MAX_TESTS])
        more = ", ..." if len(naming) > MAX_TESTS else ""
        lines.append(
            f"| {entry.statement} | `{entry.module}.{entry.name}` | {shown + more or 'none'} |"
        )
    return "\n".join(lines) + "\n"


# -- figures --------------------------------------------------------------------------------------

HARD_GRIDS = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
SPECTRAL_GRIDS = [8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 48, 64]


def best_spectral(n_grid: int) -> tuple[float, float]:
    """The rho and margin with the smallest certificate on |s| <= 1 in float64."""
    from icgd.theory.spectral import head_error, make_geometry, min_grid

    choices = [
        (rho, margin)
        for rho in [0.3 + 0.05 * i for i in range(31)]
        for margin in [1.0 + 0.25 * i for i in range(33)]
        if min_grid(rho, margin) <= n_grid
    ]
    return min(
        choices,
        key=lambda c: head_error(make_geometry(n_grid, *c, 1.0, "spectral"), 1.0, 2.0**-53),
    )


def precision_curves() -> dict[str, list[tuple[int, float, float]]]:
    """(grid tokens, measured error, certificate) of both temperatures on |s| <= 1."""
    import torch

    from icgd import SpectralHead

    s = torch.linspace(-1, 1, 100_003, dtype=torch.float64)

    def measure(head: SpectralHead) -> tuple[float, float]:
        worst = max(float((head(part) - part).abs().max()) for part in s.split(4096))
        return worst, head.certificate().sup_error

    curves: dict[str, list[tuple[int, float, float]]] = {"hard": [], "spectral": []}
    for n in HARD_GRIDS:
        curves["hard"].append((n, *measure(SpectralHead(1.0, n_grid=n, temperature="hard"))))
    for n in SPECTRAL_GRIDS:
        rho, margin = best_spectral(n)
        head = SpectralHead(1.0, n_grid=n, rho=rho, margin=margin)
        curves["spectral"].append((n, *measure(head)))
    return curves


def precision_figure() -> bytes:
    """Tokens against precision: what a softmax can read off n tokens."""
    from matplotlib.axes import Axes

    from icgd.report.figures import COLOURS, draw

    curves = precision_curves()
    names = {
        "hard": ("nearest token (hard)", COLOURS["sgd"]),
        "spectral": ("Gaussian kernel (spectral)", COLOURS["transformer"]),
    }

    def plot(axes: Axes) -> None:
        for kind, (label, colour) in names.items():
            n, measured, promised = zip(*curves[kind], strict=True)
            axes.plot(n, promised, color=colour, linestyle="--", label=f"{label}: certificate")
            axes.plot(n, measured, color=colour, marker="o", markersize=4, linestyle="none",
                      label=f"{label}: measured")  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks([4**i for i in range(1, 7)], [str(4**i) for i in range(1, 7)])
        axes.axhline(2.0**-52, color=COLOURS["drift"], linewidth=1)
        axes.text(4096, 2.0**-52 * 1.6, "float64 machine precision", ha="right", fontsize=9,
                  color=COLOURS["drift"])  # fmt: skip
        axes.set(xlabel="grid tokens of the head", ylabel="largest error of reading s, |s| <= 1")
        axes.set_title("About 28 tokens read a number to machine precision", loc="left")
        axes.legend(fontsize=9, loc="center right")

    return draw(plot, height=4.4)


def round_figure() -> bytes:
    """Error of every round of the demo beside its bound."""
    import icgd
    from icgd.cli.curves import error_curve
    from icgd.cli.run_command import load_table
    from icgd.report.figures import error_figure

    table = load_table(None, "diabetes", (), standardize=True)
    network = icgd.Network((table.X.shape[1], 16, 16, 1))
    program = icgd.compile(network, icgd.SGD(lr=0.01))
    check = icgd.verify(program, table.X, table.Y, init=network.init(seed=0), epochs=1)
    return error_figure(error_curve(check.rounds))


def main(arguments: list[str]) -> None:
    """Write the map, and the figures unless only the map is wanted."""
    MAP.write_text(theorem_map(), encoding="utf-8")
    if "--map" in arguments:
        return
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / "tokens_against_precision.png").write_bytes(precision_figure())
    (FIGURES / "error_per_round.png").write_bytes(round_figure())


if __name__ == "__main__":
    main(sys.argv[1:])
