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
from typing import Any

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


@dataclass(frozen=True)
class Names:
    """What a test file names, read once.

    words     every word
    dotted    every `icgd.a.b`, also as a part of `icgd.a.b.c`
    packages  every `p` of `from p import`
    """

    words: frozenset[str]
    dotted: frozenset[str]
    packages: frozenset[str]


def names_in(text: str) -> Names:
    """The names in the text of a test file."""
    dotted = set()
    for chain in re.findall(r"\bicgd(?:\.\w+)+", text):
        parts = chain.split(".")
        dotted |= {".".join(parts[:n]) for n in range(2, len(parts) + 1)}
    packages = re.findall(r"from ([\w.]+) import", text)
    return Names(frozenset(re.findall(r"\w+", text)), frozenset(dotted), frozenset(packages))


def tests_naming(entry: Entry, tests: dict[str, Names]) -> list[str]:
    """Test files that import the definition's home and contain its name.

    A private name is not imported by tests: it counts as named wherever its module is.
    """
    name = entry.name.split(".")[0]
    package = entry.module.rpartition(".")[0]

    def names(file: Names) -> bool:
        here = entry.module in file.dotted or package in file.packages
        return f"icgd.{name}" in file.dotted or (here and (name[0] == "_" or name in file.words))

    return [path for path, file in tests.items() if names(file)]


def theorem_map() -> str:
    """The text of docs/theorem_map.md."""
    tests = {
        path.relative_to(ROOT).as_posix(): names_in(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.name != "test_theorem_map.py"
    }
    lines = [
        "# Theorem map",
        "",
        "Which statement is implemented where, and which tests name that place. Generated from the",
        "docstrings by `make docs`; do not edit by hand. Each docstring lists its",
        "differences from the paper; [errata.md](errata.md) has those where the paper is wrong.",
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
    from icgd.transformer.gadgets.heads.spectral_theory import head_error, make_geometry, min_grid

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

    from icgd.pages.report.drawing.figures import COLOURS, draw

    curves = precision_curves()
    names = {
        "hard": ("nearest token (hard)", COLOURS["sgd"]),
        "spectral": ("Gaussian kernel (spectral)", COLOURS["transformer"]),
    }

    def plot(axes: Axes) -> None:
        for kind, (label, colour) in names.items():
            n, measured, promised = zip(*curves[kind], strict=True)
            axes.plot(n, promised, color=colour, linestyle="--", label=f"{label}: certificate")
            axes.plot(
                n,
                measured,
                color=colour,
                marker="o",
                markersize=4,
                linestyle="none",
                label=f"{label}: measured",
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks([4**i for i in range(1, 7)], [str(4**i) for i in range(1, 7)])
        axes.axhline(2.0**-52, color=COLOURS["drift"], linewidth=1)
        axes.text(
            4096,
            2.0**-52 * 1.6,
            "float64 machine precision",
            ha="right",
            fontsize=9,
            color=COLOURS["drift"],
        )
        axes.set(xlabel="grid tokens of the head", ylabel="largest error of reading s, |s| <= 1")
        axes.set_title("About 28 tokens read a number to machine precision", loc="left")
        axes.legend(fontsize=9, loc="center right")

    return draw(plot, height=4.4)


def round_figure() -> bytes:
    """Error of every round of the demo beside its bound."""
    import icgd
    from icgd.cli.run.curves import error_curve
    from icgd.cli.run.network import load_table
    from icgd.pages.report.drawing.figures import error_figure

    table = load_table(None, "diabetes", (), standardize=True)
    network = icgd.Network((table.X.shape[1], 16, 16, 1))
    program = icgd.compile(network, icgd.SGD(lr=0.01))
    check = icgd.verify(program, table.X, table.Y, init=network.init(seed=0), epochs=1)
    return error_figure(error_curve(check.rounds))


def diabetes_ridge(steps: int, **options: Any) -> Any:
    """A verified run of ridge regression on the diabetes data, kappa about 400, at eta = 1/beta."""
    import torch

    import icgd
    from icgd.cli.run.network import load_table

    table = load_table(None, "diabetes", (), standardize=True)
    X, y = torch.as_tensor(table.X), torch.as_tensor(table.Y).reshape(-1)
    y = (y - y.mean()) / y.std()
    problem = icgd.Ridge(X.shape[1], lam=1e-3)
    _, beta = problem.constants_on(X, 1.0)
    program = icgd.compile(problem, icgd.GD(lr=1 / beta), radius=8.0, **options)
    return icgd.verify(program, X, y, steps=steps, probe_sets=0)


def lasting_error(steps: int) -> Any:
    """The worst case: eta so small that a head errs in the same way at every step."""
    import torch

    import icgd

    program = icgd.compile(
        icgd.Ridge(1), icgd.GD(lr=1e-6), temperature="hard", n_grid=64, radius=2.0
    )
    one = torch.ones(1, 1, dtype=torch.float64)
    # Levels lie at odd multiples of half a spacing; this is 0.4 spacings away from one.
    return icgd.verify(program, one, -0.9 * 4 / 63 * one[0], steps=steps, probe_sets=0)


def grid_figure(steps: int = 50) -> bytes:
    """Error after some steps, and its bound, against the number of grid tokens."""
    from matplotlib.axes import Axes

    from icgd.pages.report.drawing.figures import COLOURS, draw

    curves: dict[str, list[tuple[int, float, float]]] = {"hard": [], "spectral": []}
    for n in [8, 16, 32, 64, 128, 256, 512, 1024]:
        check = diabetes_ridge(steps, temperature="hard", n_grid=n)
        curves["hard"].append((n, check.max_error, check.global_bound))
    for n in [8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 32, 48, 64, 128]:
        rho, margin = best_spectral(n)
        check = diabetes_ridge(steps, n_grid=n, rho=rho, margin=margin)
        curves["spectral"].append((n, check.max_error, check.global_bound))

    def plot(axes: Axes) -> None:
        for kind, colour in (("hard", COLOURS["sgd"]), ("spectral", COLOURS["transformer"])):
            n, measured, promised = zip(*curves[kind], strict=True)
            axes.plot(n, promised, color=colour, linestyle="--", label=f"{kind}: L eps")
            axes.plot(
                n,
                measured,
                color=colour,
                marker="o",
                markersize=4,
                linestyle="none",
                label=f"{kind}: measured",
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks([2**i for i in range(3, 11)], [str(2**i) for i in range(3, 11)])
        axes.set(xlabel="grid tokens of a head", ylabel="largest |w - w_gd|")
        axes.set_title(
            f"Ridge regression in context, {steps} steps: error against tokens", loc="left"
        )
        axes.legend(fontsize=9)

    return draw(plot, height=4.4)


def steps_figure(steps: int = 1000) -> bytes:
    """Error and its bound against the number of steps, in both temperatures."""
    from matplotlib.axes import Axes

    from icgd.pages.report.drawing.figures import COLOURS, draw

    runs = [
        ("hard, 64 tokens", COLOURS["sgd"], {"temperature": "hard", "n_grid": 64}),
        ("hard, 1024 tokens", COLOURS["bound"], {"temperature": "hard", "n_grid": 1024}),
        ("spectral, 32 tokens", COLOURS["transformer"], {}),
    ]
    checks = [(label, colour, diabetes_ridge(steps, **options)) for label, colour, options in runs]
    label = "hard, 64 tokens, one example, tiny eta"
    checks.append((label, COLOURS["drift"], lasting_error(steps)))

    def plot(axes: Axes) -> None:
        for label, colour, check in checks:
            t = [r.step for r in check.rounds]
            bound = [r.global_bound for r in check.rounds]
            axes.plot(t, bound, color=colour, linestyle="--", linewidth=1.2)
            axes.plot(t, [r.error for r in check.rounds], color=colour, label=label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(xlabel="steps L", ylabel="|w - w_gd|  (dashed: L eps)")
        axes.set_title("Ridge regression in context: error against steps", loc="left")
        axes.legend(fontsize=8, ncols=2, loc="center left", bbox_to_anchor=(0.0, 0.35))

    return draw(plot, height=4.4)


def main(arguments: list[str]) -> None:
    """Write the map, and the figures unless only the map is wanted."""
    MAP.write_text(theorem_map(), encoding="utf-8")
    if "--map" in arguments:
        return
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / "tokens_against_precision.png").write_bytes(precision_figure())
    (FIGURES / "error_per_round.png").write_bytes(round_figure())
    (FIGURES / "statistics_tokens.png").write_bytes(grid_figure())
    (FIGURES / "statistics_steps.png").write_bytes(steps_figure())


if __name__ == "__main__":
    main(sys.argv[1:])
