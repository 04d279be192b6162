"""One colour code: every page and figure takes its colours from one table, and eyes can tell them apart."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import icgd
from icgd.pages import colours
from icgd.pages.colours import CURVES, KINDS, style_sheet
from icgd.pages.report.chart import COLOURS, ON_DARK, RUN_COLOURS
from icgd.transformer.runtime.recording.outline import BLOCKS

PAGES = Path(colours.__file__).parent
TOOLS = Path(icgd.__file__).parents[2] / "tools"
HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
TOGETHER = [("F", "B", "X", "Y"), ("G", "Q", "P"), ("H", "Q", "P")]
"""Kinds of blocks that meet in one prompt: networks, linear models, stacks and loops."""
# How colours look without one kind of cone (Machado, Oliveira and Fernandes 2009), on linear RGB.
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def linear(colour):
    """Linear RGB of #rrggbb."""
    s = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE Lab of linear RGB, in daylight."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    t = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    """The ratio of luminances that accessibility guidelines ask for."""
    a, b = (float(linear(c) @ [0.2126, 0.7152, 0.0722]) + 0.05 for c in (one, other))
    return max(a, b) / min(a, b)


def pages_and_scripts():
    found = [p for p in PAGES.rglob("*") if p.suffix in (".py", ".js", ".css", ".j2", ".html")]
    return [p for p in [*found, *TOOLS.glob("*.py")] if p.name != "colours.py"]


def test_every_kind_of_block_has_a_colour_of_its_own():
    assert set(KINDS) == set(BLOCKS)
    for theme in ("light", "dark"):
        assert len({getattr(hue, theme) for hue in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_kinds_that_meet_are_told_apart_by_any_eyes(eyes, theme):
    """Twenty units of Lab are many times what side-by-side areas need to be told apart."""
    for group in TOGETHER:
        seen = {k: lab(EYES[eyes] @ linear(getattr(KINDS[k], theme))) for k in group}
        for one, other in combinations(group, 2):
            assert np.linalg.norm(seen[one] - seen[other]) > 20, (one, other)


def test_letters_can_be_read():
    for hue in KINDS.values():
        assert contrast(hue.light, "#ffffff") > 4.5
        assert contrast(hue.dark, "#1a1e22") > 4.5
        assert contrast(hue.soft, "#1f2933") > 4.5


def test_no_page_or_script_has_its_own_copy():
    table = {c for hue in (*KINDS.values(), *CURVES) for c in (hue.light, hue.dark, hue.soft)}
    table -= {"#ffffff"}
    for path in pages_and_scripts():
        text = path.read_text(encoding="utf-8")
        assert not table & {c.lower() for c in HEX.findall(text)}, path.name
        assert not re.search(r"--(?:kind|other)-[\w$({}]+\s*:", text), path.name


def test_code_of_the_report_names_no_colours():
    for path in (PAGES / "report").rglob("*.py"):
        assert not HEX.findall(path.read_text(encoding="utf-8")), path.name


def test_the_report_draws_with_the_table():
    table = {hue.light: hue.dark for hue in CURVES}
    assert {*COLOURS.values(), *RUN_COLOURS} <= set(table)
    assert all(table[light] == dark for light, dark in ON_DARK.items())


def test_the_viewer_has_every_kind_in_both_themes():
    sheet = style_sheet()
    for kind, hue in KINDS.items():
        assert f"--kind-{kind}: {hue.light};" in sheet
        assert f"--kind-{kind}: {hue.dark};" in sheet
        assert f'[data-kind="{kind}"]' in sheet
    from icgd.pages.viewer.page import page

    assert sheet in page("{}")
