"""Definition 4.4 of [COT] as an index formula: every way to read it, and the one that works.

The printed rule selects, for the t-th block, the pair
    (t-1, t - 2t mod N)  if t mod N != 1,        (t-1, floor(t/N) - 1)  if t mod N = 1.
It leaves open how the remainder binds, which residues are meant, what t counts and from where, and in
which order the initial B blocks stand. All readings are tried; a selection is right if it names the two
blocks the step needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from icgd.papers.cot.section_4.states import unwatched
from icgd.problems import Weights
from icgd.transformer.mask_rules import Step
from icgd.transformer.program import Program

Label = tuple[str, int, int]
"""A block by kind, layer (0 for data) and the round that wrote it (0: the initial prompt)."""

Parse = Literal["t - 2(t mod N)", "t - (2t mod N)", "(t - 2t) mod N"]
Counted = Literal["generated", "blocks", "prompt"]


@dataclass(frozen=True)
class Selection:
    """Indices of the two blocks a step sees; `data` says that the second counts data blocks."""

    first: int
    second: int
    data: bool


@dataclass(frozen=True)
class Reading:
    """One way to read the printed rule.

    parse      how "t - 2t mod N" binds
    one_to_n   residues 1..N instead of 0..N-1
    reversed   initial blocks listed B_N..B_1 instead of B_1..B_N
    counted    what t counts: generated blocks, those and the initial B before them, or the prompt
    origin     number of the first block that t counts
    start      number of the first data block; None: data are numbered as part of the prompt
    """

    parse: Parse
    one_to_n: bool
    reversed: bool
    counted: Counted
    origin: int
    start: int | None

    def first_step(self, n_layers: int, n_rounds: int) -> int:
        """The t of the first generated block."""
        before = {"generated": 0, "blocks": n_layers, "prompt": 2 * n_rounds + n_layers}
        return self.origin + before[self.counted]

    def select(self, t: int, n_layers: int) -> Selection:
        """The printed rule.

        Statement: [COT] Definition 4.4

        Differs from the paper: no; this is the printed rule, kept to show that it fails.
        """
        n = n_layers

        def residue(value: int) -> int:
            return (value - 1) % n + 1 if self.one_to_n else value % n

        if residue(t) == 1:
            return Selection(t - 1, t // n - 1, data=True)
        if self.parse == "t - 2(t mod N)":
            second = t - 2 * residue(t)
        elif self.parse == "t - (2t mod N)":
            second = t - residue(2 * t)
        else:
            second = residue(-t)
        return Selection(t - 1, second, data=False)


def all_readings() -> Iterator[Reading]:
    """Every combination of parse, residues, order, what t counts, and origins."""
    parses: tuple[Parse, ...] = ("t - 2(t mod N)", "t - (2t mod N)", "(t - 2t) mod N")
    starts: dict[Counted, tuple[int | None, ...]] = {
        "generated": (0, 1),
        "blocks": (0, 1),
        "prompt": (0, 1, None),
    }
    for parse, one_to_n, listed, counted, origin in product(
        parses, (False, True), (False, True), starts, (0, 1)
    ):
        for start in starts[counted]:
            yield Reading(parse, one_to_n, listed, counted, origin, start)


def repaired_selection(t: int, n_layers: int) -> Selection:
    """The index formula that works, for generated blocks counted from 1 and every N >= 1.

    Statement: [COT] Definition 4.4

    With r = the residue of t in 1..N:  (t-1, t - 2r + 1) if r != 1;  (t-1, data block
    floor((t-1)/N) + 1) if r = 1, data listed X_1 Y_1 X_2 Y_2 ..., initial blocks listed B_N .. B_1.

    Differs from the paper: the residues, the two offsets and the order of the initial blocks. For
    N >= 2 the data block is also floor(t/N) + 1, closest to the print; for N = 1 that is one too far.

    >>> [repaired_selection(t, 2).second for t in (1, 2, 3, 4)]
    [1, -1, 2, 1]
    """
    residue = (t - 1) % n_layers + 1
    if residue == 1:
        return Selection(t - 1, (t - 1) // n_layers + 1, data=True)
    return Selection(t - 1, t - 2 * residue + 1, data=False)


def near_print_selection(t: int, n_layers: int) -> Selection:
    """`repaired_selection` with data block floor(t/N) + 1: right for N >= 2 only."""
    repaired = repaired_selection(t, n_layers)
    return Selection(repaired.first, t // n_layers + 1, data=True) if repaired.data else repaired


def needed(t: int, n_layers: int) -> tuple[Label, Label]:
    """The two blocks that the t-th generated block (from 1) is computed from, top first.

    Statement: [COT] Definition 4.4

    Differs from the paper: by (round, layer); for B_i the text before the definition asks for B_{i-1}.
    """
    n = n_layers
    round_, place = (t - 1) // (2 * n) + 1, (t - 1) % (2 * n) + 1
    if place == 1:
        return ("B", 1, round_ - 1), ("X", 0, round_)
    if place <= n:
        return ("F", place - 1, round_), ("B", place, round_ - 1)
    layer = 2 * n + 1 - place
    if layer == n:
        return ("F", n, round_), ("Y", 0, round_)
    return ("B", layer + 1, round_), ("F", layer, round_)


def written(t: int, n_layers: int) -> Label:
    """The t-th generated block."""
    n = n_layers
    round_, place = (t - 1) // (2 * n) + 1, (t - 1) % (2 * n) + 1
    return ("F", place, round_) if place <= n else ("B", 2 * n + 1 - place, round_)


def data_blocks(n_rounds: int) -> list[Label]:
    """X_1 Y_1 X_2 Y_2 ..."""
    return [(kind, 0, r) for r in range(1, n_rounds + 1) for kind in "XY"]


def initial_blocks(n_layers: int, *, from_last: bool) -> list[Label]:
    """B_1 .. B_N, or B_N .. B_1."""
    listed = [("B", i, 0) for i in range(1, n_layers + 1)]
    return listed[::-1] if from_last else listed


def wrong_selections(reading: Reading, n_layers: int, n_rounds: int) -> int:
    """At how many of the 2 N L steps the printed rule names other blocks than the step needs."""
    total = 2 * n_layers * n_rounds
    data = data_blocks(n_rounds)
    cot = initial_blocks(n_layers, from_last=reading.reversed)
    cot += [written(g, n_layers) for g in range(1, total + 1)]
    first_t = reading.first_step(n_layers, n_rounds)
    sequence = dict(enumerate(cot, first_t - n_layers))
    if reading.counted == "prompt":
        sequence |= dict(enumerate(data, reading.origin))
    data_at = sequence if reading.start is None else dict(enumerate(data, reading.start))
    wrong = 0
    for g in range(1, total + 1):
        t = first_t + g - 1
        picked = reading.select(t, n_layers)
        second = data_at if picked.data else sequence
        # A block cannot see itself or anything later.
        visible = [sequence.get(picked.first), second.get(picked.second)]
        visible = [None if label == written(g, n_layers) else label for label in visible]
        wrong += tuple(visible) != needed(g, n_layers)
    return wrong


def train_by_index(
    program: Program, X: Tensor, Y: Tensor, init: Weights, select: Callable[[int, int], Selection]
) -> Weights:
    """A training run in which an index formula alone decides what every step sees.

    The prompt is a plain list: initial blocks B_N .. B_1 at 1-N .. 0, generated blocks from 1 on,
    and the list of data blocks beside it. An index that names no block is a KeyError.
    """
    session = program.codec.session(X, Y, init=init, epochs=1, steps=None, padded=False)
    engine = unwatched(program)
    n_layers, n_rounds = len(init), X.shape[-2]
    data = [
        engine.load(arrived[(kind, 0)]) for arrived in session.arrivals(None) for kind in ("X", "Y")
    ]
    prompt = {
        i: engine.load(session.prompt[(kind, layer)])
        for i, (kind, layer, _) in enumerate(initial_blocks(n_layers, from_last=True), 1 - n_layers)
    }
    data_at = dict(enumerate(data, 1))
    with torch.no_grad():
        for t in range(1, 2 * n_layers * n_rounds + 1):
            picked = select(t, n_layers)
            kind, layer, round_ = written(t, n_layers)
            visible = [prompt[picked.first], (data_at if picked.data else prompt)[picked.second]]
            step = Step(kind, (kind, layer), (("top", 0), ("bottom", 0)))
            prompt[t] = engine.step(visible, step, round_)
    last = {written(t, n_layers)[:2]: engine.dump(prompt[t]) for t in sorted(prompt) if t >= 1}
    return session.decode(last)
