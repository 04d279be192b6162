"""The page: template, style, script and trace in one file that asks nothing of anyone."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
from importlib import resources
from pathlib import Path

from icgd.base.atomic import write_text
from icgd.pages.colours import style_sheet
from icgd.pages.viewer.bundle import BrokenApp, bundle
from icgd.transformer.trace import read_trace

TITLE = "icgd trace"


def page(trace_text: str, *, title: str | None = None) -> str:
    """The viewer with this trace in it.

    The text is not judged here: the page itself says what is wrong with it, and no text can end the
    element it stands in. `write_page` refuses what is not a trace.
    """
    style, script = _app()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    # "<" occurs in strings of JSON only, where \u003c means the same. Carriage returns and NUL would
    # be changed by the HTML parser; neither stands in valid JSON except as white space.
    embedded = trace_text.replace("<", "\\u003c")
    return _filled(
        {
            "policy": html.escape(policy, quote=True),
            "title": html.escape(title or TITLE),
            "style": style,
            "script": script,
            "trace": embedded,
        }
    )


def write_page(trace_path: Path, out: Path, *, title: str | None = None) -> None:
    """The viewer of a trace file as a file, whole or not at all; raises InvalidFile."""
    read_trace(trace_path)
    content = page(trace_path.read_text(encoding="utf-8"), title=title)
    write_text(out, content)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _source(name: str) -> str:
    # Hashes are of what the browser sees, and it sees line feeds only.
    text = resources.files("icgd.pages.viewer").joinpath("app", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


@functools.cache
def _app() -> tuple[str, str]:
    folder = resources.files("icgd.pages.viewer").joinpath("app")
    names = [entry.name for entry in folder.iterdir() if entry.name.endswith(".js")]
    script = bundle({name.removesuffix(".js"): _source(name) for name in sorted(names)}, "main")
    style = style_sheet() + _source("style.css")
    if "</style" in style.lower():
        raise BrokenApp("style.css holds text that would end it in a page.")
    return style, script


def _filled(parts: dict[str, str]) -> str:
    template = _source("index.html")
    places = re.findall(r"\{\{(\w+)\}\}", template)
    if sorted(places) != sorted(parts):
        raise BrokenApp(f"index.html has places for {sorted(places)}, not {sorted(parts)}.")
    # One pass: what is filled in is never searched for places.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
