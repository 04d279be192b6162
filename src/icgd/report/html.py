"""One self-contained page about a run: opens offline, requests nothing, prints well.

The page is made from a result (the content of result.json) and nothing else, so it can be made
again from the file at any time.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from icgd.report.figures import COLOURS, all_figures, positive

BOUNDS = {
    "round_bound": (
        "Per round, rigorous",
        "One round of the transformer against one exact SGD round from the same weights, by affine "
        "arithmetic over every head error and rounding.",
    ),
    "global_bound": (
        "Whole run, rigorous",
        "The per-round bounds carried to the end through the Lipschitz constant of every round; it "
        "grows exponentially with the rounds and says nothing once it exceeds the weights themselves.",
    ),
    "paper_bound": (
        "Whole run, as in the paper",
        "Rounds times the error of one round; it assumes that a round never increases distances, "
        "which is false for networks, so it is shown for comparison and proves nothing.",
    ),
}
"""Title and one sentence for each of the three bounds."""


def number(value: Any) -> str:
    """A number as people read it; None is one that is not finite.

    >>> number(1.23456e-9), number(2210), number(2662166707200), number(None), number(0.5566713)
    ('1.23e-09', '2,210', '2.66e+12', 'not finite', '0.5567')
    """
    if value is None:
        return "not finite"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**9 else f"{value:.3g}"
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.4g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"


def result_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What came out, in words."""
    kink = result.get("near_kink") or {}
    rows = [
        ("Mean loss before training", number(result.get("loss_before"))),
        ("Mean loss after, trained by the transformer", number(result.get("loss_after"))),
        ("Mean loss after, trained by SGD", number(result.get("loss_after_sgd"))),
        ("R² on the training data, transformer", number(result.get("r2_transformer"))),
        ("R² on the training data, SGD", number(result.get("r2_sgd"))),
        ("Largest weight difference over the run", number(result["max_error"])),
        ("Largest error of one round", number(result["max_round_error"])),
        ("Rounds above their bound", _over(result)),
        ("Range used, largest |s| / radius", _percent(result.get("range_use"))),
        ("Units within rounding of a ReLU's kink", number(kink.get("count", 0))),
    ]
    if kink.get("first"):
        rows.append(("First of them", "round {}, layer {}, unit {}".format(*kink["first"])))
    return rows


def cost_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What it took."""
    names = {
        "rounds": "Rounds (examples times epochs)",
        "blocks": "Blocks written (calls of the layer)",
        "live_blocks_max": "Blocks kept at a time",
        "dense_flops": "FLOPs with literal matrices",
        "structured_flops": "FLOPs with structure used",
        "seconds": "Seconds, verification included",
    }
    return [(text, number(result[key])) for key, text in names.items() if key in result]


def bound_rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The three bounds, each with the measured number it speaks about."""
    measured = {"round_bound": "max_round_error"}
    return [
        {
            "title": title,
            "why": why,
            "value": number(result[key]),
            "measured": number(result[measured.get(key, "max_error")]),
        }
        for key, (title, why) in BOUNDS.items()
    ]


def flat_rows(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as lines `outer.inner  value`."""
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += flat_rows(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            rows.append((f"{prefix}{key}", ", ".join(map(str, value))))
        else:
            rows.append((f"{prefix}{key}", str(value)))
    return rows


def plots(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Plotly traces and axes for the curves a result has."""
    curves = result.get("curves") or {}
    found = []
    loss, error = curves.get("loss") or {}, curves.get("error") or {}
    if loss.get("round"):
        found.append(
            {
                "id": "loss",
                "title": "Loss of both networks: same start, same rows",
                "y": "mean loss",
                "log": False,
                "traces": [
                    _trace("trained by torch.optim.SGD", loss, "sgd", COLOURS["sgd"], width=7),
                    _trace(
                        "trained by the frozen transformer", loss, "transformer",
                        COLOURS["transformer"],
                    ),
                ],
            }
        )  # fmt: skip
    if error.get("round"):
        found.append(
            {
                "id": "error",
                "title": "Error of every round, and its bound",
                "y": "largest weight difference",
                "log": True,
                "traces": [
                    _trace("bound of one round", error, "round_bound", COLOURS["bound"], log=True),
                    _trace("measured: one round", error, "round_error", COLOURS["transformer"],
                           log=True, mode="markers"),
                    _trace("measured: whole run so far", error, "error", COLOURS["drift"],
                           log=True, dash="dash"),
                ],
            }
        )  # fmt: skip
    return found


def _trace(
    name: str, curve: Mapping[str, Sequence[Any]], key: str, colour: str, *,
    log: bool = False, mode: str = "lines", width: float = 2, dash: str = "solid",
) -> dict[str, Any]:  # fmt: skip
    y = [None if math.isnan(v) else v for v in positive(curve[key])] if log else list(curve[key])
    return {
        "type": "scatter",
        "name": name,
        "mode": mode,
        "x": list(curve["round"]),
        "y": y,
        "line": {"color": colour, "width": width, "dash": dash},
        "marker": {"color": colour, "size": 4},
    }


def _over(result: Mapping[str, Any]) -> str:
    """Counted over all rounds; a thinned curve could hide one."""
    over = result.get("rounds_over_bound")
    return "not counted" if over is None else f"{over:,} of {result['rounds']:,}"


def _percent(value: Any) -> str:
    return number(value) if value is None else f"{100 * float(value):.3g} %"


def render_report(result: Mapping[str, Any], figures: Mapping[str, bytes] | None = None) -> str:
    """The page as text.

    result   the content of result.json
    figures  PNG files by name, shown where scripts are off; drawn from the result if not given
    """
    from jinja2 import Environment, PackageLoader
    from plotly.offline import get_plotlyjs

    figures = all_figures(result) if figures is None else figures
    environment = Environment(
        loader=PackageLoader("icgd.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        result=result,
        rows={"Result": result_rows(result), "Cost": cost_rows(result)},
        bounds=bound_rows(result),
        over=_over(result),
        details={
            "Configuration": flat_rows(result.get("config") or {}),
            "Versions": flat_rows(result.get("versions") or {}),
        },
        notes=list(result.get("notes") or []),
        plots=plots(result),
        pictures={name: base64.b64encode(png).decode() for name, png in figures.items()},
        plotly=get_plotlyjs(),
    )


def write_report(result: Mapping[str, Any], directory: Path) -> list[Path]:
    """Write report.html and its figures into an existing directory; gives back what was written."""
    figures = all_figures(result)
    written = []
    for name, png in figures.items():
        (directory / name).write_bytes(png)
        written.append(directory / name)
    page = directory / "report.html"
    page.write_text(render_report(result, figures), encoding="utf-8")
    return [*written, page]
