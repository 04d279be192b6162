"""Blocks that cot-d compares, and its sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from icgd.lab.experiments.experiment import Size

PLAIN = "plain block"
LONGER = "products, copies, scaled, longer"
BEST = "products, copies, scaled, new students"
SOFTMAX = "softmax products, copies, scaled, new students"
GROWING = "products, copies, scaled, growing students"
RADIUS = 16.0
"""Of the products of softmax heads over the spectral grid."""


@dataclass(frozen=True, kw_only=True)
class OperatorSize(Size):
    """Settings of Appendix D.

    d           width of the students
    compared    of the seeds, for all but Figure 2 and the block that works
    wide        a second width
    depths      layers of the students of Figure 2, the first of them for everything else
    rounds      of SGD, each with one example
    lr          of SGD
    students    in the data of Figure 2
    many        in the data of the comparison of blocks
    wide_students  new in every epoch, for the second width
    epochs      of Figure 2
    long_epochs with new students in every one
    tested      students that are held out, new ones for every seed
    """

    compared: int
    d: int
    wide: int
    depths: tuple[int, ...]
    rounds: int
    lr: float
    students: int
    many: int
    wide_students: int
    epochs: int
    many_epochs: int
    long_epochs: int
    wide_epochs: int
    tested: int
    width: int
    hidden: int


LAPTOP = OperatorSize(
    seeds=5,
    compared=3,
    d=5,
    wide=10,
    depths=(3, 6, 9),
    rounds=20,
    lr=0.05,
    students=200,
    many=1000,
    wide_students=300,
    epochs=20,
    many_epochs=10,
    long_epochs=80,
    wide_epochs=50,
    tested=60,
    width=128,
    hidden=512,
)
SMOKE = OperatorSize(
    seeds=1,
    compared=1,
    d=3,
    wide=4,
    depths=(1, 2, 3),
    rounds=2,
    lr=0.05,
    students=4,
    many=6,
    wide_students=6,
    epochs=2,
    many_epochs=1,
    long_epochs=2,
    wide_epochs=1,
    tested=6,
    width=16,
    hidden=16,
)
OVERNIGHT = OperatorSize(
    seeds=5,
    compared=3,
    d=5,
    wide=10,
    depths=(3, 6, 9),
    rounds=20,
    lr=0.05,
    students=200,
    many=1000,
    wide_students=1000,
    epochs=20,
    many_epochs=40,
    long_epochs=200,
    wide_epochs=300,
    tested=60,
    width=128,
    hidden=512,
)


def plain(size: OperatorSize, **changed: Any) -> dict[str, Any]:
    """The block of the paper, for both operators."""
    block = {
        "kind": "plain",
        "width": size.width,
        "heads": 8,
        "hidden": size.hidden,
        "normalised": True,
        "positions": False,
        **changed,
    }
    return {"forward": block, "backward": block}


def products(d: int, *, copies: bool, scale: float = 1.0, radius: float = 0.0) -> dict[str, Any]:
    """More heads than the d that are needed: they find the products sooner."""
    common = {"kind": "products", "copies": copies, "scale": scale, "radius": radius}
    return {
        "forward": {**common, "heads": d + 3, "keys": d, "hidden": 128},
        "backward": {**common, "heads": 3 * d + 1, "keys": 4, "hidden": 0},
    }


Case = tuple[str, dict[str, Any], dict[str, Any]]
"""Its name, settings of the blocks, and what differs from Figure 2."""


def _many(size: OperatorSize) -> dict[str, Any]:
    return {"students": size.many, "epochs": size.many_epochs, "batch": 512, "rate": 6e-3}


def block_that_works(size: OperatorSize) -> Case:
    """What the paper's claim is true of, at the first width."""
    new = {**_many(size), "fresh": True, "epochs": size.long_epochs}
    return BEST, products(size.d, copies=True, scale=size.lr), new


def compared_blocks(size: OperatorSize) -> list[Case]:
    """Blocks that are compared."""
    d, lr, wide, many = size.d, size.lr, size.wide, _many(size)
    wider = {
        **many,
        "fresh": True,
        "d": wide,
        "students": size.wide_students,
        "epochs": size.wide_epochs,
        "tested_layers": [size.depths[0]],
    }
    long = {**many, "epochs": size.long_epochs}
    softmax: dict[str, Any] = {"copies": True, "scale": lr, "radius": RADIUS}
    return [
        (
            "plain block, no norm, new students",
            plain(size, normalised=False),
            {**many, "fresh": True, "rate": 3e-3},
        ),
        ("products", products(d, copies=False), many),
        ("products, copies", products(d, copies=True), many),
        ("products, copies, scaled", products(d, copies=True, scale=lr), many),
        ("softmax products, copies, scaled", products(d, **softmax), many),
        (LONGER, products(d, copies=True, scale=lr), long),
        (BEST, products(wide, copies=True, scale=lr), wider),
        (SOFTMAX, products(wide, **softmax), wider),
        (GROWING, products(wide, copies=True, scale=lr), {**wider, "grown_from": d}),
    ]
