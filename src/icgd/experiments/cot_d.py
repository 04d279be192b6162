"""COT, Appendix D: one-layer operators learn to write forward and backward blocks, and whole chains of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.experiments.cells import Cell
from icgd.experiments.cot_d_blocks import (
    BEST,
    GROWING,
    LAPTOP,
    OVERNIGHT,
    PLAIN,
    SMOKE,
    SOFTMAX,
    OperatorSize,
    block_that_works,
    compared_blocks,
    plain,
)
from icgd.experiments.drawing import curve, panels, title
from icgd.experiments.experiment import Claim, Experiment, ResultTable, Row, Rows, Scale
from icgd.experiments.over_seeds import (
    ERROR_MARGIN,
    below,
    combined,
    distinct,
    select,
    smaller,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORK = "icgd.experiments.cot_d_runs:train_operators"
ROLLED = 0.15
"""Of the movement of the true weights: what a chain may be off after the last round."""
LOSSES = {
    "forward": ("forward, copies and means", 0.07),
    "backward": ("backward, copies and zeros", 0.0034),
    "weights": ("weights, copies", 0.033),
}
"""Bars for operators that work, in parts of a guess that copies: below 0.8, 0.06 and 0.003 at d = 5, N = 3."""


class CotD(Experiment):
    """Figure 2 for the plain block, blocks that multiply, and what their chains of thought are worth."""

    name: ClassVar = "cot-d"
    paper: ClassVar = "COT"
    where: ClassVar = "Appendix D, Figure 2"
    title: ClassVar = "operators that learn to write gradient descent"
    differs: ClassVar = (
        "The paper does not tell the number of students, the step size, the scale of weights and data, the "
        "optimiser, nor which width and depth its figure is of: losses cannot be compared with its 3.00 and "
        "0.139.",
        "Blocks as corrected in the errata: the step uses o_{i-1}, and the loss is |o_N - y|^2 with descent. "
        "F_0 holds the example, B_{N+1} the derivative of the loss, so that one operator covers all layers.",
        "The paper defines the distance of roll-outs but reports none; it is what the experiment is about.",
        "Blocks called products have heads of linear attention, (q.k) v, and a feed-forward part. Copies: "
        "rows that the exact operator carries over are copied. Scaled: the change of the weights is learned in "
        "parts of the step size, and its loss weighed alike. Softmax products attend to tokens of the spectral "
        "grid that stand beside the columns of a block. Longer and new students: more epochs, with the same "
        "students or others in each.",
        "The plain block has a read-in and a read-out, LayerNorm after each part, warm-up, a cosine and "
        "clipping, of which the paper tells nothing. It is trained with batches of 64 at rate 1e-3, products "
        "with batches of 512 at 6e-3 on more students; the plain block is also shown without LayerNorm, with "
        "as many new students in every epoch.",
        "Bars for the losses of blocks that multiply are ours, and were set before these runs: 0.8, 0.06 and "
        "0.003 at d = 5 and N = 3, or less, told in parts of what guesses that copy have.",
        "`paper` is `overnight` with the widths the paper names, 10 and 20.",
    )
    seeds_differ: ClassVar = (
        "Every seed has students of its own, to learn from and to be tested on. Figure 2 and the block that "
        "works at the first width have all seeds, other blocks and the second width `compared` of them."
    )
    only_cpu: ClassVar = True
    sizes: ClassVar = {
        "smoke": SMOKE,
        "laptop": LAPTOP,
        "overnight": OVERNIGHT,
        "paper": OperatorSize(**{**OVERNIGHT.settings(), "d": 10, "wide": 20}),
    }

    def cells(self, scale: Scale) -> list[Cell]:
        """A pair of operators per block, depth and seed."""
        size: OperatorSize = self.size(scale)
        made = []
        for seed in range(size.seeds):
            made += [
                self._cell(
                    size, PLAIN, plain(size), {"n_layers": n, "tested_layers": [n]}, seed=seed
                )
                for n in size.depths
            ]
            made.append(self._cell(size, *block_that_works(size), seed=seed))
            if seed < size.compared:
                made += [self._cell(size, *case, seed=seed) for case in compared_blocks(size)]
        return made

    @staticmethod
    def _cell(
        size: OperatorSize, case: str, block: dict[str, Any], changed: dict[str, Any], seed: int
    ) -> Cell:
        options: dict[str, Any] = {
            "d": size.d, "n_layers": size.depths[0], "n_rounds": size.rounds, "lr": size.lr,
            "students": size.students, "fresh": False, "block": block, "epochs": size.epochs, "batch": 64,
            "rate": 1e-3, "tested": size.tested, "tested_layers": list(size.depths), "seed": seed, **changed,
        }  # fmt: skip
        key = {"case": case, "d": options["d"], "layers": options["n_layers"], "seed": seed}
        return Cell(key, WORK, options, ("epochs", "students"))

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Losses beside those that need no operator, and how far chains are off."""
        losses, chains, deeper = [], [], []
        for found in _groups(rows):
            first = found[0]
            name = (first["case"], f"{first['d']}", f"{first['layers']}")
            losses.append(
                (*name, *(told([r["loss"][key] for r in found]) for key in LOSSES), *_least(found))
            )
            chains.append((*name, *_chain_numbers(found)))
            others = [n for n in first["chains"] if n != str(first["layers"])]
            if others:
                deeper.append((*name, *(_other_depth(found, n) for n in others)))
        columns = ("Block", "d", "N")
        tables = [
            ResultTable(
                "Losses on students that were never seen (squared Frobenius norm), and of guesses that need no "
                "operator",
                (*columns, "Forward", "Backward", "Its weights", "Forward: copies, means", "least squares",
                 "Backward: copies, zeros", "least squares", "Weights: copies"),
                tuple(losses),
            ),
            ResultTable(
                "Roll-outs: |W - W_true|^2 over all layers after the last round, the movement of the true "
                "weights, and the first in parts of the second, also with one of the two operators exact. "
                "Means are over students that SGD moves by at most their norm, medians over all; wild is the "
                "part of students on which SGD itself explodes, and the last column is with them",
                (*columns, "Mean", "Median", "Moved, mean", "Moved, median", "Part", "Forward exact",
                 "Backward exact", "Wild", "Part, all"),
                tuple(chains),
            ),
        ]  # fmt: skip
        if deeper:
            lines = tuple(deeper)
            names = tuple("Other depth" for _ in lines[0][3:])
            heading = "Students of other depths, with the same operators: off by this part of the movement"
            tables.append(ResultTable(heading, (*columns, *names), lines))
        return tables

    def claims(self, rows: Rows) -> list[Claim]:
        """The paper's claim, for its block and for ones that multiply."""
        d, layers = rows[0]["d"], rows[0]["layers"]
        plain = select(rows, case=PLAIN, layers=layers, d=d)
        best = select(rows, case=BEST, d=d)
        wide = [r for r in select(rows, case=BEST) if r["d"] != d]
        parts = {key: [_part(r, key) for r in best] for key in LOSSES}
        bars = [below(parts[key], bound) for key, (_, bound) in LOSSES.items()]
        others = [n for n in best[0]["chains"] if n != str(layers)]
        works = "chains of one layer that multiplies follow gradient descent"
        epochs = len(plain[0]["curves"]["forward"])
        falls = {
            f"N = {n}: {way}, {name}": [
                _fall(r, way, part) for r in select(rows, case=PLAIN, layers=n, d=d)
            ]
            for n in distinct(select(rows, case=PLAIN, d=d), "layers")
            for way in plain[0]["curves"]
            for part, name in enumerate(("training", "validation"))
        }
        return [
            Claim(
                "losses of the plain block fall",
                f"losses fall in {epochs} epochs, for training and for validation",
                "loss over that after one epoch: "
                + "; ".join(f"{name} {told(parts_)}" for name, parts_ in falls.items()),
                combined([below(parts_, 1 - ERROR_MARGIN) for parts_ in falls.values()]),
            ),
            Claim(
                "the plain block knows more than to copy rows, also of the change of weights",
                "both operators are learned (here: losses below those of a guess that copies, of the weights "
                "too)",
                "loss over that of a guess that copies: "
                + ", ".join(f"{key} {told([_part(r, key) for r in plain])}" for key in LOSSES),
                combined([below([_part(r, key) for r in plain], 1.0) for key in LOSSES]),
                ours=True,
            ),
            Claim(
                "chains of the plain block follow gradient descent",
                f"one layer generates the chain of SGD (here: off by at most {ROLLED} of the movement of the "
                "weights)",
                f"off by {told([_off(r) for r in plain])} of the movement; 1 is to leave the weights alone",
                below([_off(r) for r in plain], ROLLED),
            ),
            Claim(
                "chains of the plain block end nearer than weights that are left alone",
                "chains of the plain block are better than no training (here: off by less than the movement)",
                f"off by {told([_off(r) for r in plain])} of the movement",
                below([_off(r) for r in plain], 1.0),
                ours=True,
            ),
            Claim(
                f"one layer that multiplies learns the operators at d = {d}",
                "the same (here: losses below "
                + ", ".join(f"{bound} ({key})" for key, (_, bound) in LOSSES.items())
                + " of those of a guess that copies)",
                ", ".join(
                    f"{key} {told([r['loss'][key] for r in best])}, a part of {told(parts[key])}"
                    for key in LOSSES
                ),
                combined(bars),
                ours=True,
            ),
            Claim(
                f"{works} at d = {d}, N = {layers}",
                "one layer that multiplies generates the chain of SGD (here: off by at most "
                f"{ROLLED} of the movement)",
                _followed(best),
                below([_off(r) for r in best], ROLLED),
                ours=True,
            ),
            Claim(
                f"{works} for students of N = {', '.join(others)}, which it was not trained on",
                "the same operators for deeper students (here: means and medians off by at most "
                f"{ROLLED} of the movement)",
                "; ".join(_other_depth(best, n) for n in others),
                combined([below(f(best, n), ROLLED) for n in others for f in (_offs, _median_offs)]),
                ours=True,
            ),
            Claim(
                f"{works} at d = {wide[0]['d']}, N = {layers}",
                "the same for wider students",
                _followed(wide),
                below([_off(r) for r in wide], ROLLED),
                ours=True,
            ),
            Claim(
                f"chains of softmax heads over the spectral grid follow gradient descent at d = {wide[0]['d']}",
                "the same for wider students, by softmax attention alone",
                _followed(select(rows, case=SOFTMAX)),
                below([_off(r) for r in select(rows, case=SOFTMAX)], ROLLED),
                ours=True,
            ),
            Claim(
                f"students that grow in training make for better chains at d = {wide[0]['d']}",
                f"is it better to begin with d = {d}, after as many epochs",
                f"off by {told([_off(r) for r in select(rows, case=GROWING)])} of the movement against "
                f"{told([_off(r) for r in wide])}",
                smaller([_off(r) for r in select(rows, case=GROWING)], [_off(r) for r in wide]),
                ours=True,
            ),
        ]  # fmt: skip

    def draw(self, rows: Rows) -> Figure:
        """Figure 2, and what chains come to."""
        d = rows[0]["d"]
        depths = [r["layers"] for r in select(rows, case=PLAIN, seed=rows[0]["seed"], d=d)]
        figure, axes = panels(2, 3, width=3.4, height=2.8, sharey=False)
        for axis, layers in zip(axes[0], depths, strict=False):
            found = select(rows, case=PLAIN, layers=layers, d=d)
            for i, way in enumerate(found[0]["curves"]):
                for part, name in enumerate(("train", "validation")):
                    curves = [[pair[part] for pair in r["curves"][way]] for r in found]
                    curve(axis, range(1, len(curves[0]) + 1), curves, f"{way}, {name}", i, 1 - part)
            axis.set_yscale("log")
            title(axis, f"plain block, N = {layers}", "epoch", "loss")
        axes[0][0].legend(fontsize=7, frameon=False)
        for axis, (case, width) in zip(axes[1], _shown(rows, d), strict=False):
            found = select(rows, case=case, d=width, layers=rows[0]["layers"])
            at = str(rows[0]["layers"])
            for i, (key, name) in enumerate((("off", "chain"), ("moved", "leaving weights alone"))):
                curves = [r["chains"][at][f"{key}_mean"] for r in found]
                curve(axis, range(1, len(curves[0]) + 1), curves, name, i, i)
            axis.set_yscale("log")
            shown = case if case == PLAIN else "products, new students"
            title(axis, f"{shown}, d = {width}", "round", "|W - W_true|^2")
            axis.legend(fontsize=7, frameon=False)
        return figure


def _groups(rows: Rows) -> list[list[Row]]:
    """Rows of one block, width and depth: one for every seed."""
    keys = dict.fromkeys((r["case"], r["d"], r["layers"]) for r in rows)
    return [select(rows, case=case, d=d, layers=layers) for case, d, layers in keys]


def _shown(rows: Rows, d: int) -> list[tuple[str, int]]:
    wide = [w for w in distinct(rows, "d") if w != d]
    return [(PLAIN, d), (BEST, d), *((BEST, w) for w in wide)]


def _other_depth(rows: list[Row], layers: str) -> str:
    """Part, median distance and movement for students of another depth."""
    chains = [r["chains"][layers] for r in rows]
    off, moved = (told([c[f"{name}_median"][-1] for c in chains]) for name in ("off", "moved"))
    part = told(_median_offs(rows, layers))
    return f"N = {layers}: {told(_offs(rows, layers))}; medians {off} of {moved}, a part of {part}"


def _off(row: Row, layers: str = "") -> float:
    """How far the weights are off after the last round, in parts of the movement of the true ones."""
    chain = row["chains"][layers or str(row["layers"])]
    # Networks all of whose units are closed do not move at all.
    return float(chain["off_mean"][-1] / (chain["moved_mean"][-1] or math.nan))


def _offs(rows: list[Row], layers: str) -> list[float]:
    return [_off(row, layers) for row in rows]


def _median_offs(rows: list[Row], layers: str) -> list[float]:
    """The median distance over the median movement: that of a student as there are many."""
    at = [row["chains"][layers] for row in rows]
    return [c["off_median"][-1] / (c["moved_median"][-1] or math.nan) for c in at]


def _off_all(row: Row) -> float:
    """The same with students on which SGD itself explodes."""
    chain = row["chains"][str(row["layers"])]
    return float(chain["off_all"][-1] / (chain["moved_all"][-1] or math.nan))


def _followed(rows: list[Row]) -> str:
    """How far chains are off, and what was left out of it."""
    wild = [r["chains"][str(r["layers"])]["wild"][0] for r in rows]
    off = f"off by {told([_off(r) for r in rows])} of the movement"
    if not any(wild):
        return off
    return (
        f"{off}, without {told(wild)} of the students, on which SGD itself explodes; with them "
        f"{told([_off_all(r) for r in rows])}"
    )


def _part(row: Row, key: str) -> float:
    """A loss in parts of that of a guess that copies."""
    return float(row["loss"][key] / row["baselines"][LOSSES[key][0]])


def _fall(row: Row, way: str, part: int) -> float:
    """The last loss over the first, of training (0) or validation (1)."""
    return float(row["curves"][way][-1][part] / row["curves"][way][0][part])


def _least(rows: list[Row]) -> list[str]:
    names = (
        "forward, copies and means", "forward, least squares", "backward, copies and zeros",
        "backward, least squares", "weights, copies",
    )  # fmt: skip
    return [told([r["baselines"][name] for r in rows]) for name in names]


def _chain_numbers(rows: list[Row]) -> list[str]:
    at = [r["chains"][str(r["layers"])] for r in rows]
    names = ("off_mean", "off_median", "moved_mean", "moved_median")
    moved = [c["moved_mean"][-1] or math.nan for c in at]
    exact = [
        told([r[f"exact_{way}"] / m for r, m in zip(rows, moved, strict=True)])
        for way in ("forward", "backward")
    ]
    return [
        *(told([c[name][-1] for c in at]) for name in names), told([_off(r) for r in rows]), *exact,
        told([c["wild"][0] for c in at]), told([_off_all(r) for r in rows]),
    ]  # fmt: skip
