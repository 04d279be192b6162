"""Tables of lsa-train."""

from __future__ import annotations

from typing import Any

from icgd.lab.experiments.experiment import ResultTable, Row, Rows
from icgd.lab.experiments.over_seeds import select, spread

SPECTRAL = "spectral"
RANDOM, ILL = "random start, gradients cut", "badly conditioned start"
POLYNOMIALS = "polynomials on [-1, 1], half the step"
TWO_BLOCKS, ALL_ENTRIES = "plain descent, two blocks", "plain descent, all entries"
NO_TARGETS = "plain descent, all but the column of y"
ONLINE = "online SGD, one prompt a step, two blocks"
SCALING, POOLS = "d = ", " prompts in all"
"""In the names of all trainings of other sizes, and on few prompts."""
LEARNED = 1e-6
"""A training whose loss is below this has found the algorithm."""


def lsa_tables(rows: Rows) -> list[ResultTable]:
    """Chains, layers without one, loops, shifts."""
    chains = []
    for case in chain_cases(rows):
        trained = select(rows, part="chain", case=case)
        chains.append(
            (
                case,
                spread([r["loss"] for r in trained]),
                spread([r["off"][0] for r in trained]),
                _pair(trained, "mean"),
                _pair(trained, "median"),
                spread([r["blocks"]["V31"] for r in trained]),
                spread([r["blocks"]["W13"] for r in trained]),
            )
        )
    one_steps = []
    for d, n in dict.fromkeys((r["d"], r["n"]) for r in select(rows, part="one step")):
        trained = select(rows, part="one step", d=d, n=n)
        one_steps.append(
            (
                f"{d}",
                f"{n}",
                f"{trained[0]['floor']:.4g}",
                spread([r["mean"][0] for r in trained]),
                spread([r["median"][0] for r in trained]),
                f"{trained[0]['rate'][1]:.4g}",
                spread([r["rate"][0] for r in trained]),
            )
        )
    loops = []
    for n, k in dict.fromkeys((r["n"], r["k"]) for r in select(rows, part="loop")):
        trained = select(rows, part="loop", n=n, k=k)
        learned = spread([r["learned_rate"] for r in trained])
        loops.append((f"{n}", f"{k}", _pair(trained, "mean"), _pair(trained, "median"), learned))
    shifts = []
    for case in chain_cases(rows):
        trained = [r for r in select(rows, part="chain", case=case) if "shifts" in r]
        for name in trained[0]["shifts"] if trained else ():
            there = [r["shifts"][name] for r in trained]
            parts = []
            for part in ("stable", "diverging"):
                seen = [t[part] for t in there if part in t]
                parts += [_pair(seen, "mean"), _pair(seen, "median")] if seen else ["-", "-"]
            unstable = spread([100 * t["unstable"] for t in there])
            shifts.append((case, name, f"{unstable} %", *parts))
    scaling = [
        (
            case,
            *(spread([r["watched"][at][2] for r in trained]) for at in (0, -1)),
            *(
                spread([r["conditions"][when][block] for r in trained])
                for block in (0, 1)
                for when in (0, 1)
            ),
            _learned_by(trained),
        )
        for case in chain_cases(rows)
        if (trained := select(rows, part="chain", case=case))
    ]
    softmax = [
        (
            part,
            spread([r["by_step"][0][-1] for r in trained]),
            spread([r["median"][0] for r in trained]),
            *(
                (
                    spread([r["by_step"][1][-1] for r in trained]),
                    spread([r["median"][1] for r in trained]),
                )
                if trained[0]["by_step"][1]
                else (f"{trained[0]['floor']:.4g} (one linear step)", "-")
            ),
        )
        for part in ("softmax chain", "softmax, no chain")
        if (trained := select(rows, part=part))
    ]
    return [
        ResultTable(
            "Trained on the chain: loss, largest distance of the model's own chain to exact gradient "
            "descent (relative), 1/2 |w_k - w*|^2 of the model and (of descent), distance of V31 and W13 to "
            "the construction",
            ("Case", "Loss", "Distance", "Mean", "Median", "V31", "W13"),
            tuple(chains),
        ),
        ResultTable(
            "Without a chain: loss of one step beside the least possible, d(d+1)/(2(n+d+1)), and the step "
            "learned",
            ("d", "n", "Least", "Loss", "Median", "Best step", "Learned step"),
            tuple(one_steps),
        ),
        ResultTable(
            "Loops of V31 and W13, trained on their outcome: loss, and (of gradient descent with the best step "
            "from 0.3 to 0.8, for means and medians apart)",
            ("n", "k", "Mean", "Median", "Learned step"),
            tuple(loops),
        ),
        ResultTable(
            "A layer of softmax attention with a feed-forward part: 1/2 |w - w*|^2 at the end, and descent's",
            ("Training", "Mean", "Median", "Descent, mean", "Descent, median"),
            tuple(softmax),
        ),
        ResultTable(
            "Other covariances, at the k of the training: share of prompts with lr lambda_max(S) >= 2, and "
            "loss of the model and (of descent) on the others and on these",
            (
                "Case",
                "Eigenvalues",
                "Unstable",
                "Stable: mean",
                "median",
                "Unstable: mean",
                "median",
            ),
            tuple(shifts),
        ),
        ResultTable(
            "How trainings go: norm of the first and the last gradient, condition numbers of V31 and W13 "
            f"before and after, step from which on the loss is below {LEARNED:g}, on fresh prompts too",
            (
                "Case",
                "Gradient, first",
                "last",
                "Condition of V31, before",
                "after",
                "Of W13, before",
                "after",
                "Learned by step",
            ),
            tuple(scaling),
        ),
    ]


def chain_cases(rows: Rows) -> list[str]:
    """Kinds of trainings on the chain."""
    return list(dict.fromkeys(r["case"] for r in select(rows, part="chain")))


def cases_of(rows: Rows, words: str) -> list[Row]:
    """Trainings on the chain whose names have these words in them."""
    return [row for row in select(rows, part="chain") if words in row["case"]]


def _pair(rows: Any, key: str) -> str:
    """Ours and (theirs)."""
    return f"{spread([r[key][0] for r in rows])} ({spread([r[key][1] for r in rows])})"


def _learned_by(rows: Rows) -> str:
    """The step from which on the loss counts as learned, over seeds."""
    steps = [_learned_from(row) for row in rows]
    reached = [float(step) for step in steps if step is not None]
    if not reached:
        return "never"
    return spread(reached, 5) + (
        "" if len(reached) == len(steps) else f", {len(steps) - len(reached)} never"
    )


def _learned_from(row: Row) -> float | None:
    """The first step after which all losses seen, and the one on fresh prompts, count as learned.

    >>> _learned_from({"watched": [[0, 1.0], [9, 0.0], [18, 1.0], [27, 0.0]], "loss": 0.0})
    27
    >>> _learned_from({"watched": [[0, 1.0], [9, 0.0]], "loss": 1.0})
    """
    if not row["loss"] < LEARNED:
        return None
    missed = [i for i, seen in enumerate(row["watched"]) if not seen[1] < LEARNED]
    after = missed[-1] + 1 if missed else 0
    return row["watched"][after][0] if after < len(row["watched"]) else None
