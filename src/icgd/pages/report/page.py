"""Pages that need nothing but themselves: one template set, Plotly inlined once, a strict policy.

The policy lets the two scripts of the page run, by their hashes, and nothing else: no request, no
other script, whatever a column or a file may be called.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from icgd.pages.report.chart import ON_DARK, Bars, Chart, plotly
from icgd.pages.report.drawing.draw import PAGE, STILL, picture


def rendered(
    template: str, charts: Sequence[Chart], pictures: Mapping[str, bytes], **content: Any
) -> str:
    """A page from a template.

    charts    drawn by the page's script
    pictures  PNG files by name; `<chart id>.png` stands for a chart in print and without scripts
    """
    from jinja2 import Environment, PackageLoader
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("icgd.pages.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    loader = environment.loader
    assert loader is not None
    library = get_plotlyjs().replace("</script", "<\\/script")
    script = loader.get_source(environment, "draw.js")[0]
    return environment.get_template(template).render(
        pictures={name: base64.b64encode(png).decode() for name, png in pictures.items()},
        charts=list(charts),
        data={"plots": [plotly(chart) for chart in charts], "dark": ON_DARK},
        plotly=library,
        script=script,
        hashes=[_hash(library), _hash(script)] if charts else [],
        style=loader.get_source(environment, "style.css")[0],
        **content,
    )


def stills(charts: Sequence[Chart | Bars]) -> dict[str, bytes]:
    """PNG files by name, for print and where scripts are off; bars have no heading on a page."""
    return {f"{c.id}.png": picture(c, PAGE if isinstance(c, Bars) else STILL) for c in charts}


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def flat_rows(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as lines `outer.inner  value`.

    >>> flat_rows({"problem": {"widths": [3, 1]}, "box": None})
    [('problem.widths', '3, 1'), ('box', 'none')]
    """
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += flat_rows(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            rows.append((f"{prefix}{key}", ", ".join(map(_plain, value))))
        else:
            rows.append((f"{prefix}{key}", _plain(value)))
    return rows


def _plain(value: Any) -> str:
    """Settings exactly, so that they can be given again; JSON's words for the rest."""
    words = {None: "none", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else str(value)
