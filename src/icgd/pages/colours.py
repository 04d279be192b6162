"""The colours of all pages and figures: one per kind of block, and a few for curves.

The viewer's style sheet, the report's charts and the figures of the guided tour take them from here, so that a
forward block is the same blue wherever it is met. Hues that are seen together stay apart for colour-blind eyes
(tests/pages/test_colours.py), and no kind is told by its colour alone: blocks carry a letter, curves a dash.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hue:
    """A colour on a light page and on a dark one."""

    light: str
    dark: str

    @property
    def soft(self) -> str:
        """A tint to write on, on white.

        >>> Hue("#000000", "#ffffff").soft
        '#cccccc'
        """
        return mixed(self.light, "#ffffff", 0.2)


def mixed(colour: str, ground: str, share: float) -> str:
    """`share` of a colour over a ground.

    >>> mixed("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = ((int(colour[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


KINDS = {
    "F": Hue("#094ac5", "#5f93ff"),
    "B": Hue("#b8540a", "#f09a5a"),
    "X": Hue("#13854f", "#87f0bd"),
    "Y": Hue("#682d79", "#b18dc4"),
    "G": Hue("#8a6a00", "#e3c35a"),
    "Q": Hue("#821c2c", "#f2838a"),
    "H": Hue("#1f7c6d", "#4aaed0"),
    "P": Hue("#374269", "#d2eaea"),
}
"""Kinds of blocks, by the letter that traces give them."""

BLUE = Hue("#0072b2", "#4fa8e0")
AMBER = Hue("#e69f00", "#e69f00")
VERMILION = Hue("#d55e00", "#ff8a4c")
GREEN = Hue("#009e73", "#35c99c")
PINK = Hue("#cc79a7", "#f08cc0")
SKY = Hue("#56b4e9", "#b3e5ff")
WINE = Hue("#882255", "#b98cff")
OLIVE = Hue("#8a8a2b", "#ded44f")
FOREST = Hue("#117733", "#9ccc65")
GREY = Hue("#777777", "#a0a0a0")
CHARCOAL = Hue("#444444", "#d0d0d0")
SILVER = Hue("#a8adb3", "#6f767d")
CURVES = (BLUE, AMBER, VERMILION, GREEN, PINK, SKY, WINE, OLIVE, FOREST, GREY, CHARCOAL, SILVER)
"""Colours of curves and bars."""

ROLES = {"ours": BLUE, "exact": AMBER, "error": KINDS["Y"]}
"""Curves of the viewer: the transformer's, the exact optimizer's, their difference."""


def style_sheet() -> str:
    """Variables and rules for the viewer; a kind without a colour of its own gets one by its place.

    >>> '--kind-F: #094ac5;' in style_sheet(), '[data-kind="B"]' in style_sheet()
    (True, True)
    """
    named = {**{f"kind-{kind}": hue for kind, hue in KINDS.items()}, **ROLES}
    named |= {f"other-{place}": hue for place, hue in enumerate(KINDS.values())}
    light = " ".join(f"--{name}: {hue.light};" for name, hue in named.items())
    dark = " ".join(f"--{name}: {hue.dark};" for name, hue in named.items())
    rules = [f":root {{ {light} }}", f':root[data-theme="dark"] {{ {dark} }}']
    rules += [
        f'[data-kind-place="{place}"] {{ --hue: var(--other-{place}); }}'
        for place in range(len(KINDS))
    ]
    rules += [f'[data-kind="{kind}"] {{ --hue: var(--kind-{kind}); }}' for kind in KINDS]
    return "\n".join(rules) + "\n"
