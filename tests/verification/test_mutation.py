"""No single change of a compiled program may pass verification.

Excluded are only changes that change nothing (bit by bit the same on all probes: a gate's constant
may be any large number) and changes of the grid after which the recomputed certificate still meets
the promised bound (the outermost grid tokens). Both lists are printed.
"""

from __future__ import annotations

import mutants
import pytest
import torch

import icgd
from icgd.transformer.blocks import Block
from icgd.verification.probes.cot_network import probe_blocks
from icgd.verification.probes.grid import check_grid

CASES = {
    "linear output": icgd.Network((3, 2, 3, 2)),
    "relu output, no bias": icgd.Network((2, 3, 2), output="relu", bias=False),
}


def make_problem(net: icgd.Network) -> tuple[torch.Tensor, torch.Tensor, list]:
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(4, net.widths[0], generator=generator, dtype=torch.float64)
    Y = torch.randn(4, net.widths[-1], generator=generator, dtype=torch.float64).abs()
    # Positive weights keep the ReLUs open, so that every edge of the mask carries a signal.
    init = [(W.abs(), b) for W, b in net.init(seed=1)]
    return X.abs(), Y, init


def same_blocks(program: icgd.Program, a: Block, b: Block) -> bool:
    """Bit by bit; a slot known to be zero and a slot of zeros are the same."""

    def written(block: Block, slot: str) -> torch.Tensor:
        value = torch.as_tensor(block.value(slot), dtype=torch.float64)
        return value.expand(program.layout[slot].shape)

    return all(torch.equal(written(a, s), written(b, s)) for s in program.layout.names)


def same_trace(a: icgd.Run, b: icgd.Run) -> bool:
    return all(
        same_blocks(a.program, x.block, y.block) for x, y in zip(a.trace, b.trace, strict=True)
    )


def judge(program: icgd.Program, mutant: mutants.Mutant, data: tuple, original: list) -> str:
    altered = mutant.of(program)
    X, Y, init = data
    try:
        if not icgd.verify(altered, X, Y, init=init).passed:
            return "rejected"
    except icgd.IcgdError:
        return "rejected"
    if mutant.prompt:
        # The prompt and the mask are not in the probes: compare every block of a literal run.
        runs = [
            p.run(X, Y, init=init, executor="dense", record="trace") for p in (program, altered)
        ]
        return "identical" if same_trace(*runs) else "survived"
    if all(
        same_blocks(program, block, before)
        for (_, _, block), before in zip(probe_blocks(altered), original, strict=True)
    ):
        return "identical"
    if mutant.table and check_grid(altered).passed:
        return "certified"
    return "survived"


PARTS = 4
"""Tests the battery is divided among, so that several workers share it."""


def run_battery(name: str, per_tensor: int, part: slice = slice(None)) -> dict[str, list[str]]:
    net = CASES[name]
    program = icgd.compile(net, icgd.SGD(lr=0.05))
    data = make_problem(net)
    assert icgd.verify(program, *data[:2], init=data[2]).passed
    original = [block for _, _, block in probe_blocks(program)]
    found: dict[str, list[str]] = {"rejected": [], "identical": [], "certified": [], "survived": []}
    battery = [
        *mutants.weight_mutants(program, per_tensor=per_tensor),
        *mutants.temperature_mutants(),
        *mutants.mask_mutants(program),
        *mutants.flag_mutants(),
    ]
    for mutant in battery[part]:
        found[judge(program, mutant, data, original)].append(mutant.name)
    return found


def report(name: str, found: dict[str, list[str]]) -> None:
    counts = {kind: len(names) for kind, names in found.items()}
    print(f"\n{name}: {counts}")
    for kind in ("identical", "certified", "survived"):
        print(f"  {kind}:", *found[kind], sep="\n    ")


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", CASES)
def test_no_single_change_passes(name: str, part: int) -> None:
    found = run_battery(name, per_tensor=2, part=slice(part, None, PARTS))
    report(name, found)
    assert not found["survived"]
    weights = [text for text in found["rejected"] if not text.startswith(mutants.TABLES)]
    assert len(weights) >= 200 // PARTS
    # Gate constants may be any number at least as large. And a step that sees [X; B_1] instead of
    # [B_1; X] is a forward step whose input happens to be data: the router takes it, to the last bit.
    assert all(
        "scaled by 1%" in text or text == "mask step 0 (x) swapped" for text in found["identical"]
    )
    # Only the outermost pair of grid tokens may be changed without breaking the promise.
    assert set(found["certified"]) <= {
        f"{table}[{entry}] {how}"
        for table in mutants.TABLES
        for entry in (30, 31)
        for how in mutants.SCALES
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_single_change_passes_in_depth(name: str) -> None:
    found = run_battery(name, per_tensor=6)
    report(name, found)
    assert not found["survived"]
