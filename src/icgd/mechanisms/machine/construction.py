"""The in-context machine: what the rest of the package asks of it."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.machine"
MACHINE = Construction(
    name="in_context_machine",
    problem=f"{_HERE}.problem:Tapes",
    optimizer=f"{_HERE}.problem:HostOptimizer",
    options=f"{_HERE}.options:MachineOptions",
    build=f"{_HERE}.compile:build",
    label="machine",
    lead="Every call of the one frozen layer executed one instruction of a tape; beside it PyTorch made the "
    "same step from the same numbers.",
    noun="a program of the machine",
    title="one frozen layer, instruction by instruction, computes",
    summary="one frozen layer that executes a tape of instructions",
    statement="[COT] Proposition 4.4",
    rounds="epochs",
    starts=True,
    schema=f"{_HERE}.saved.schema:MACHINE_CONFIG",
    size=f"{_HERE}.saved.size:machine_size",
    card=f"{_HERE}.programs.card:card_text",
    verifier="icgd.verification.machine.verify:verify_machine",
    judged_by=(
        "init",
        "epochs",
        "steps",
        "batch_size",
        "shuffle",
        "schedule",
        "model",
        "optimizer",
        "loss",
        "step",
        "function",
    ),
    data=None,
    compiles=False,
    parts=(
        "transformer.gadgets.gates.routed",
        "transformer.gadgets.machine_heads.heads",
        "mechanisms.machine.layer.layouts",
        "mechanisms.machine.layer.thermometer",
        "mechanisms.machine.schedule",
        "mechanisms.machine.compile",
    ),
)
