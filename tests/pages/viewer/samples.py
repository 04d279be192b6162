"""Small traces made by hand: a network trained by a toy of the layer, and a state that is replaced.

They do not need the recorder: the viewer is judged against the format alone.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from icgd.transformer.trace.arrays import ArrayStore
from icgd.transformer.trace.file import parse_trace

WIDTH, LAYERS, LR = 3, 2, 0.05
LEVELS = np.array([1.0, -1.0, 3.0, -3.0, 5.0, -5.0])
BETA = 0.25
GATES = {
    "x": ["bottom/out>query", "top/weight>weight"],
    "forward": ["top/out>query", "bottom/weight>weight"],
    "y": ["top/inp>query", "top/out-bottom/out>delta"],
    "backward": ["bottom/inp>query", "top/inp>delta"],
}


def slot(name: str, *shape: int, meaning: str = "", each: bool = False) -> dict[str, Any]:
    return {"name": name, "shape": list(shape), "meaning": meaning, "each": each}


def attention(asked: np.ndarray) -> np.ndarray:
    scores = asked[:, None] * (2 * BETA * LEVELS) - BETA * LEVELS**2
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def network(n_rounds: int = 6, kept: tuple[int, ...] = (1, 2, 5, 6)) -> dict[str, Any]:
    """Two layers of three units, rounds 3 and 4 not kept in detail."""
    return _NetworkTrace(n_rounds, kept).content


class _NetworkTrace:
    def __init__(self, n_rounds: int, kept: tuple[int, ...]) -> None:
        self.random = np.random.default_rng(0)
        self.store = ArrayStore()
        self.blocks: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.latest: dict[tuple[str, int], int] = {}
        for layer in (1, 2):
            self.block("B", layer, 0, "prompt")
        for l in range(1, n_rounds + 1):  # noqa: E741
            if l in kept:
                self.round(l, after_gap=l > 1 and l - 1 not in kept)
        self.content = self.trace(n_rounds, kept)

    def block(self, kind: str, layer: int, l: int, origin: str) -> int:  # noqa: E741
        values: dict[str, Any] = {"out": self.store.put(self.random.normal(size=WIDTH))}
        away: dict[str, Any] = {}
        if kind in "FB" and l:
            values["weight"] = self.store.put(self.random.normal(size=(WIDTH, WIDTH)))
            away["weight"] = self.store.put(1e-16 * self.random.normal(size=(WIDTH, WIDTH)), "f4")
        values["not_forward" if kind == "B" else "not_backward"] = 1.0
        self.blocks.append(
            {
                "kind": kind,
                "layer": layer,
                "round": l,
                "origin": origin,
                "slots": values,
                "away": away,
            }
        )
        self.latest[kind, layer] = len(self.blocks) - 1
        return len(self.blocks) - 1

    def round(self, l: int, *, after_gap: bool) -> None:  # noqa: E741
        if after_gap:
            for layer in (1, 2):
                self.block("B", layer, l - 1, "earlier")
        self.block("X", 0, l, "arrival")
        self.block("Y", 0, l, "arrival")
        for place, planned in enumerate(SCHEDULE):
            reads = [self.latest[tuple(address)] for address in planned["reads"]]
            writes = self.block(*planned["writes"], l, "step")
            self.steps.append(
                {
                    "round": l,
                    "place": place,
                    "reads": reads,
                    "writes": writes,
                    "stages": self.stages(planned["kind"]),
                }
            )

    def stages(self, kind: str) -> list[dict[str, Any]]:
        opened = "".join("1" if group == kind else "0" for group in GATES for _ in GATES[group])
        asked = 2 * self.random.normal(size=WIDTH)
        weights = attention(asked)
        query = {"query": self.store.put(asked)}
        heads = {
            "bank": "attention.inputs",
            "slot": "query",
            "over": "grid",
            "asked": self.store.put(asked),
            "read": self.store.put(weights @ LEVELS),
            "heads": [1],
            "weights": self.store.put(weights[1:2], "f4"),
            "use": float(np.abs(asked).max() / 8),
        }
        z = {"z": self.store.put(self.random.normal(size=WIDTH))}
        return [
            {"open": opened, "slots": query},
            {"slots": {**query, **z}, "heads": [heads]},
            {"open": "10"},
        ]

    def trace(self, n_rounds: int, kept: tuple[int, ...]) -> dict[str, Any]:
        put, rounds = self.store.put, np.arange(n_rounds)
        content = {
            "format": "icgd-trace/1",
            "icgd_version": "0.0.0",
            "program": {
                "construction": "toy",
                "title": "one frozen layer trains a toy network",
                "feed": "append",
                "problem": {"widths": [3, 3, 3]},
                "optimizer": {"lr": LR},
                "options": {},
                "dtype": "float64",
                "executor": "structured",
                "radius": 8.0,
                "head_error": 1e-11,
            },
            "layout": [
                slot("out", WIDTH, meaning="what it puts out"),
                slot("weight", WIDTH, WIDTH, meaning="W, row by row"),
                slot("not_forward"),
                slot("not_backward"),
            ],
            "kinds": [{"kind": k, "title": f"{k} block: for tests"} for k in "FBXY"],
            "schedule": SCHEDULE,
            "stages": [
                {
                    "name": "pre",
                    "kind": "feed_forward",
                    "title": "router",
                    "slots": [slot("query", WIDTH)],
                    "gates": [f"{kind}:{route}" for kind in GATES for route in GATES[kind]],
                },
                {
                    "name": "attention",
                    "kind": "softmax",
                    "title": "heads",
                    "slots": [slot("query", WIDTH), slot("z", WIDTH)],
                },
                {
                    "name": "post",
                    "kind": "feed_forward",
                    "title": "activation",
                    "slots": [slot("out", WIDTH)],
                    "gates": ["activation", "closed"],
                },
            ],
            "grids": [
                {
                    "bank": "attention.inputs",
                    "levels": put(LEVELS),
                    "linear": put(2 * BETA * LEVELS),
                    "offset": put(-BETA * LEVELS**2),
                    "values": put(LEVELS),
                }
            ],
            "n_rounds": n_rounds,
            "rounds": list(kept),
            "curves": {
                "error": put(1e-16 * (1 + rounds % 3)),
                "loss": put(1 / (1.0 + rounds)),
                "exact_loss": put(1 / (1.0 + rounds) + 1e-16),
                "range_use": put(0.1 + 0 * rounds),
                "loss_title": "mean loss",
            },
            "blocks": self.blocks,
            "steps": self.steps,
            "notes": ["Rounds 3 and 4 are not kept."],
        }
        return {**content, "arrays": self.store.pools()}


SCHEDULE: list[dict[str, Any]] = [
    {
        "kind": "x",
        "title": "the example meets layer 1",
        "writes": ["F", 1],
        "reads": [["B", 1], ["X", 0]],
    },
    {"kind": "forward", "title": "forward", "writes": ["F", 2], "reads": [["F", 1], ["B", 2]]},
    {
        "kind": "y",
        "title": "the output meets its target",
        "writes": ["B", 2],
        "reads": [["F", 2], ["Y", 0]],
    },
    {
        "kind": "backward",
        "title": "the signal goes down",
        "writes": ["B", 1],
        "reads": [["B", 2], ["F", 1]],
    },
]


def replaced(n_rounds: int = 4, tokens: int = 7) -> dict[str, Any]:
    """A state of tokens that every step replaces: heads over tokens, and a slot with unknown entries."""
    random, store = np.random.default_rng(1), ArrayStore()
    blocks, steps = [], []
    for l in range(n_rounds + 1):  # noqa: E741
        known = np.where(np.arange(tokens) < tokens - 2, 1e-16, np.nan)[:, None] * np.ones(2)
        u = random.normal(size=(tokens, 2))
        blocks.append(
            {
                "kind": "H",
                "layer": 0,
                "round": l,
                "origin": "step" if l else "prompt",
                "slots": {
                    "u": store.put(u),
                    "is_y": store.put(np.arange(tokens) % 2),
                    "w": store.put(random.normal(size=(2, 3))),
                },
                "away": {"u": store.put(known, "f4")} if l else {},
                "tokens": tokens,
                "shown": tokens,
            }
        )
        if l:
            scores = random.normal(size=(tokens, tokens))
            heads = {
                "bank": "mix.products",
                "slot": "product",
                "over": "tokens",
                "asked": store.put(scores, "f4"),
                "heads": list(range(tokens)),
                "weights": store.put(np.exp(scores) / np.exp(scores).sum(1, keepdims=True), "f4"),
            }
            stages = [
                {"slots": {"u": store.put(u / 2)}, "heads": [heads]},
                {"slots": {"u": store.put(u)}},
            ]
            steps.append({"round": l, "place": 0, "reads": [l - 1], "writes": l, "stages": stages})
    content = network()
    content |= {
        "program": {
            **content["program"],
            "title": "a layer in a loop",
            "feed": "replace",
            "radius": None,
        },
        "layout": [slot("u", 2, each=True), slot("is_y", each=True), slot("w", 2, 3)],
        "kinds": [{"kind": "H", "title": "the state"}],
        "schedule": [
            {"kind": "update", "title": "update: one loop", "writes": ["H", 0], "reads": [["H", 0]]}
        ],
        "stages": [
            {
                "name": "mix",
                "kind": "softmax",
                "title": "over tokens",
                "slots": [slot("u", 2, each=True)],
            },
            {
                "name": "twice",
                "kind": "feed_forward",
                "title": "units",
                "slots": [slot("u", 2, each=True)],
            },
        ],
        "grids": [],
        "n_rounds": n_rounds,
        "rounds": list(range(1, n_rounds + 1)),
        "curves": {},
        "blocks": blocks,
        "steps": steps,
        "notes": [],
        "arrays": store.pools(),
    }
    return content


def text(content: dict[str, Any]) -> str:
    """As a file would hold it; the sample must pass the package's own reader."""
    written = json.dumps(content)
    parse_trace(written, "sample")
    return written
