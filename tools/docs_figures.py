"""Figures of the guided tour and of the proof, made from compiled programs and from sums with many digits.

python -m tools.docs_figures
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "figures"
INK = "#1f2933"


def block_figure() -> bytes:
    """What stands where in a block: the slots of a small network, drawn to scale."""
    from matplotlib.axes import Axes

    import icgd
    from icgd.pages.colours import KINDS
    from icgd.pages.report.drawing.figures import draw

    program = icgd.compile(icgd.Network((3, 3, 1)), icgd.SGD(lr=0.1))
    slots = list(program.layout)
    rows = {
        "F": ("$F_i$", ["o_i", "o_{i-1}", "closed", "W_i", "b_i", "", "0", "1", "1"]),
        "B": ("$B_i$", ["delta_i", "W_i^T delta_i", "0", "W_i new", "b_i new", "", "1", "0", "1"]),
        "X": ("X, Y", ["example", "0", "0", "0", "0", "", "1", "1", "0"]),
    }

    def plot(axes: Axes) -> None:
        for row, (kind, (name, contents)) in enumerate(rows.items()):
            axes.text(
                -0.4, -row, name, ha="right", va="center", fontsize=11, color=KINDS[kind].light
            )
            start = 0
            for slot, content in zip(slots, contents, strict=True):
                filled = content not in ("0", "") or slot.size == 1
                axes.barh(
                    -row,
                    slot.size,
                    left=start,
                    height=0.62,
                    edgecolor="#52606d",
                    linewidth=0.8,
                    color=KINDS[kind].soft if filled else "#f4f5f7",
                )
                text = _shown(content)
                axes.text(start + slot.size / 2, -row, text, ha="center", va="center", fontsize=9)
                start += slot.size
        start = 0
        for slot in slots:
            small = slot.size == 1
            axes.text(
                start + slot.size / 2,
                0.42,
                slot.name,
                ha="center",
                va="bottom",
                rotation=90 if small else 0,
                fontsize=9,
                family="monospace",
            )
            start += slot.size
        axes.set(xlim=(-2.2, start + 0.3), ylim=(-2.5, 2.4))
        axes.axis("off")

    return draw(plot, width=8.4, height=3.4)


def _shown(content: str) -> str:
    names = {
        "o_i": "$o_i$",
        "o_{i-1}": "$o_{i-1}$",
        "W_i": "$W_i$",
        "b_i": "$b_i$",
        "delta_i": r"$\delta_i$",
        "W_i^T delta_i": r"$W_i^T\delta_i$",
        "W_i new": "$W_i$ new",
        "b_i new": "$b_i$ new",
    }
    return names.get(content, content)


def mask_figure(n_layers: int = 3) -> bytes:
    """Which two blocks each call of a round sees, and which one it writes."""
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

    from icgd.pages.colours import KINDS
    from icgd.pages.report.drawing.figures import draw
    from icgd.transformer.mask_rules import DynamicMask

    steps = DynamicMask(n_layers).steps()
    prompt = [("X", 0), ("Y", 0), *(("B", i) for i in range(1, n_layers + 1))]
    columns = [(address, 0) for address in prompt] + [(step.writes, 1) for step in steps]

    def label(address: tuple[str, int], new: int) -> str:
        kind, layer = address
        return (
            f"{kind}" if kind in "XY" else f"{kind}{layer}" + ("'" if new and kind == "B" else "")
        )

    def plot(axes: Axes) -> None:
        for row, step in enumerate(steps):
            # The newest block of every name that exists by now.
            latest = {address: i for i, (address, _) in enumerate(columns[: len(prompt) + row])}
            for column, (address, _) in enumerate(columns):
                written = column - len(prompt)
                sees = address in step.reads and latest.get(address) == column
                hue = KINDS[address[0]]
                colour, edge, heavy = "#ffffff", "#c5ccd3", 0.8
                if written == row:
                    colour, edge, heavy = hue.soft, hue.light, 2.6
                elif sees:
                    colour, edge = hue.light, hue.light
                elif written > row:
                    colour = "#f1f3f5"
                axes.add_patch(
                    Rectangle(
                        (column + 0.02, -row),
                        0.88,
                        0.84,
                        facecolor=colour,
                        edgecolor=edge,
                        linewidth=heavy,
                    )
                )
            axes.text(-0.3, -row + 0.43, step.kind, ha="right", va="center", fontsize=10)
        for column, (address, new) in enumerate(columns):
            axes.text(
                column + 0.46,
                1.05,
                label(address, new),
                ha="center",
                fontsize=10,
                color=KINDS[address[0]].light,
            )
        axes.plot([len(prompt) - 0.04] * 2, [1.5, -len(steps) + 0.95], color=INK, linewidth=1)
        axes.text((len(prompt)) / 2, 1.75, "prompt", ha="center", fontsize=10)
        axes.text(
            len(prompt) + len(steps) / 2, 1.75, "written in this round", ha="center", fontsize=10
        )
        axes.text(
            0, -len(steps) + 0.5, "filled: seen     outlined: written", fontsize=9, color="#52606d"
        )
        axes.set(xlim=(-2.2, len(columns)), ylim=(-len(steps) + 0.2, 2.2))
        axes.axis("off")

    return draw(plot, width=7.4, height=4.2)


def router_figure() -> bytes:
    """Offsets of the four kinds of gates on the four kinds of input: 0 opens, 1 or more shuts."""
    from matplotlib.axes import Axes

    import icgd
    from icgd.mechanisms.cot_network.layer import step_kinds
    from icgd.pages.colours import KINDS
    from icgd.pages.report.drawing.figures import draw

    kinds = step_kinds(icgd.Network((2, 2, 1)).spec)
    flags = {  # of F, B and data blocks
        "F": {"not_forward": 0, "not_backward": 1, "not_data": 1},
        "B": {"not_forward": 1, "not_backward": 0, "not_data": 1},
        "X": {"not_forward": 1, "not_backward": 1, "not_data": 0},
    }
    inputs = {"x": ("B", "X"), "forward": ("F", "B"), "y": ("F", "X"), "backward": ("B", "F")}
    writes = {"x": "F", "forward": "F", "y": "B", "backward": "B"}
    names = {
        "x": "[B1; X]",
        "forward": "[F(i-1); B(i)]",
        "y": "[F(N); Y]",
        "backward": "[B(i+1); F(i)]",
    }

    def plot(axes: Axes) -> None:
        for row, kind in enumerate(kinds):
            for column, (top, bottom) in enumerate(inputs.values()):
                block = {"top": flags[top], "bottom": flags[bottom]}
                off = sum(block[part][flag] for part, flag in (o.split("/") for o in kind.off))
                colour = KINDS[writes[kind.name]].light if off == 0 else "#eef1f4"
                axes.barh(-row, 0.94, left=column, height=0.86, color=colour)
                axes.text(
                    column + 0.47,
                    -row,
                    f"{off}" + (" open" if off == 0 else ""),
                    ha="center",
                    va="center",
                    color="white" if off == 0 else INK,
                )
            axes.text(-0.1, -row, f"gates of {kind.name}", ha="right", va="center", fontsize=10)
        for column, kind_name in enumerate(inputs):
            axes.text(column + 0.47, 0.6, names[kind_name], ha="center", fontsize=9.5)
        axes.set(xlim=(-1.6, 4), ylim=(-3.6, 1.0))
        axes.axis("off")

    return draw(plot, width=7.2, height=2.8)


def head_figure(s: float = 0.3) -> bytes:
    """The weights a head puts on its tokens, at both temperatures, and the mean they give."""
    import torch
    from matplotlib.axes import Axes

    import icgd
    from icgd.pages.report.drawing.figures import COLOURS, draw

    heads = {
        "hard": icgd.SpectralHead(1.0, n_grid=32, temperature="hard"),
        "spectral": icgd.SpectralHead(1.0, n_grid=32),
    }
    colours = {"hard": COLOURS["sgd"], "spectral": COLOURS["transformer"]}
    at = torch.tensor([s], dtype=torch.float64)

    def plot(axes: Axes) -> None:
        for name, head in heads.items():
            levels = head.levels.double()
            score = -head.geometry.beta * (s - levels) ** 2
            weights = torch.softmax(score, dim=0)
            wrong = abs(float(head(at)) - s)
            order = levels.argsort()
            axes.vlines(
                levels[order], 0, weights[order], color=colours[name], linewidth=3, alpha=0.85
            )
            axes.plot(
                levels[order],
                weights[order],
                "o",
                color=colours[name],
                markersize=4,
                label=f"{name}, {len(levels)} tokens: mean off by {wrong:.0e}",
            )
        axes.axvline(s, color=INK, linewidth=1, linestyle=":")
        axes.text(s + 0.12, 0.9, f"asked: s = {s}", fontsize=9.5)
        axes.set(
            xlabel="level of the grid token",
            ylabel="softmax weight",
            xlim=(-2.6, 2.6),
            ylim=(0, 1.02),
        )
        axes.legend(fontsize=9, loc="upper left")
        axes.set_title("One head, asked for 0.3, at both temperatures", loc="left")

    return draw(plot, height=3.6)


# -- laws without rounding --------------------------------------------------------------------------

DIGITS = 60


def exact_error(n_grid: int, rho: float, margin: float, samples: int = 41) -> float:
    """The largest |head(s) - s| / R on a grid of s in [0, R], computed with sixty digits."""
    import mpmath

    with mpmath.workdps(DIGITS):
        R = mpmath.mpf(1)
        G = R / (1 - 2 * mpmath.mpf(margin) * mpmath.mpf(rho) / (n_grid - 1))
        spacing = 2 * G / (n_grid - 1)
        levels = [-G + k * spacing for k in range(n_grid)]
        beta = 1 / (2 * (mpmath.mpf(rho) * spacing) ** 2)
        worst = mpmath.mpf(0)
        for i in range(samples):
            s = R * i / (samples - 1)
            weights = [mpmath.exp(-beta * (s - level) ** 2) for level in levels]
            mean = mpmath.fdot(weights, levels) / mpmath.fsum(weights)
            worst = max(worst, abs(mean - s))
        return float(worst)


def laws(sizes: tuple[int, ...] = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)) -> dict[str, Any]:
    """Error in exact arithmetic against tokens, margins taking half of the grid: measured and promised.

    fixed   the margin is 8.25 widths, so rho = (p - 1) / 33 and the Poisson term is exp(-2 pi^2 rho^2)
    best    rho and margin balanced, 2 pi^2 rho^2 = m^2 / 2: both terms are exp(-pi (p - 1) / 4)
    hard    half a spacing of p levels on [-R, R]
    """
    from icgd.transformer.gadgets.heads.spectral_theory import gaussian_moments, make_geometry

    found: dict[str, Any] = {"p": sizes, "hard": [1 / (p - 1) for p in sizes]}
    for name in ("fixed", "best"):
        measured, promised = [], []
        for p in sizes:
            product = (p - 1) / 4  # m rho when margins take half of the grid
            margin = 8.25 if name == "fixed" else math.sqrt(2 * math.pi * product)
            rho = product / margin
            g = make_geometry(p, rho, margin, 1.0, "spectral")
            measured.append(exact_error(p, rho, margin))
            promised.append(g.sigma * gaussian_moments(rho, margin).mean_error)
        found[name] = {"measured": measured, "promised": promised}
    return found


def laws_figure(found: dict[str, Any] | None = None) -> bytes:
    """1/p against exp(-c p) and exp(-c p^2)."""
    from matplotlib.axes import Axes

    from icgd.pages.report.drawing.figures import COLOURS, draw

    found = found or laws()
    p = found["p"]
    styles = {
        "fixed": (
            COLOURS["bound"],
            "margin fixed at 8.25 widths: like exp(-c p²), until the tails show",
        ),
        "best": (COLOURS["transformer"], "width and margin balanced: like exp(-π (p-1)/4)"),
    }

    def plot(axes: Axes) -> None:
        axes.plot(
            p,
            found["hard"],
            color=COLOURS["sgd"],
            marker="s",
            markersize=4,
            label="nearest token: like 1/p",
        )
        for name, (colour, text) in styles.items():
            axes.plot(p, found[name]["promised"], color=colour, linestyle="--", linewidth=1.2)
            axes.plot(
                p,
                found[name]["measured"],
                color=colour,
                marker="o",
                markersize=4,
                linestyle="none",
                label=text,
            )
        axes.set_yscale("log")
        axes.axhline(2.0**-52, color=COLOURS["drift"], linewidth=1)
        axes.text(8, 2.0**-52 * 2, "float64 machine precision", fontsize=9, color=COLOURS["drift"])
        axes.set(xlabel="grid tokens p", ylabel="largest |head(s) - s| / R", ylim=(1e-23, 30))
        axes.set_title("Without rounding: three laws (dashed: bound)", loc="left")
        axes.legend(fontsize=8.5, loc="lower left")

    return draw(plot, height=4.4)


def main() -> None:
    """Write all figures."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, made in (
        ("tour_block", block_figure),
        ("tour_mask", mask_figure),
        ("tour_router", router_figure),
        ("tour_head", head_figure),
        ("spectral_laws", laws_figure),
    ):
        (FIGURES / f"{name}.png").write_bytes(made())


if __name__ == "__main__":
    main()
