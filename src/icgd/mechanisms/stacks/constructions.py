"""Stacks that train networks by gradient descent on all rows: what the rest of the package asks of them."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.stacks"
_BOTH = (
    "problems.network:Network",
    "transformer.mask_rules:StateMask",
    "transformer.nn.stack.stack",
    "mechanisms.stacks.codec",
)
_SETTINGS = ("activation", "box")
_EXECUTORS = ("structured", "dense", "sparse")
BACKWARD_STACK = Construction(
    name="relu_stack",
    problem="icgd.problems:Network",
    optimizer="icgd.problems:GD",
    options=f"{_HERE}.options:BackwardStackOptions",
    choose=f"{_HERE}.compile_backward:choose",
    build=f"{_HERE}.compile_backward:build",
    method="stack",
    label="stack of layers",
    lead="Every step the same layers read one block of tokens, each an example with all weights, "
    "ran the network forward and backward, and wrote the new weights into every token; beside "
    "it torch.optim.SGD made the same full-batch steps from the same start.",
    noun="full-batch GD",
    title="a stack of frozen layers per step (backpropagation) trains",
    summary="a stack of ReLU attention layers that backpropagates",
    statement="[DEEP] Theorem 1",
    starts=True,
    schema="icgd.mechanisms.config_schemas:BACKWARD_STACK",
    size="icgd.mechanisms.sizes:relu_stack",
    verifier="icgd.verification.stacks:verify_stack",
    walk="icgd.verification.walks.network:DescentWalk",
    cost="icgd.costs.account:stack_cost",
    parts=(
        *_BOTH,
        "transformer.gadgets.fits.relu_sum",
        "papers.deep.statements.bounds:accumulated_error",
        "verification.bounds.stack",
        "mechanisms.stacks.layout",
        "mechanisms.stacks.parts",
        "mechanisms.stacks.backward",
        "mechanisms.stacks.compile_backward",
    ),
    switches=("n_relu", "radius"),
    settings=_SETTINGS,
    executors=_EXECUTORS,
)
FORWARD_MODE = Construction(
    name="forward_mode",
    problem="icgd.problems:Network",
    optimizer="icgd.problems:GD",
    options=f"{_HERE}.options:ForwardModeOptions",
    choose=f"{_HERE}.compile_forward_mode:choose",
    build=f"{_HERE}.compile_forward_mode:build",
    method="forward_mode",
    label="forward mode",
    lead="Every step the same layers read one block of tokens, each an example with all weights, "
    "carried the network's output and its derivative by every weight forward together, and "
    "wrote the new weights into every token; beside it torch.optim.SGD made the same full- "
    "batch steps from the same start.",
    noun="full-batch GD",
    title="a stack of frozen layers per step (derivatives carried forward) trains",
    summary="N layers a step that carry derivatives forward",
    statement="[BRIDGE] Theorem 2",
    starts=True,
    schema="icgd.mechanisms.config_schemas:FORWARD_MODE",
    size="icgd.mechanisms.sizes:forward_mode",
    verifier="icgd.verification.stacks:verify_stack",
    walk="icgd.verification.walks.network:DescentWalk",
    cost="icgd.costs.account:forward_mode_cost",
    parts=(
        *_BOTH,
        "transformer.gadgets.fits.feature_fit",
        "transformer.gadgets.fits.slope_product",
        "mechanisms.stacks.forward_mode",
        "mechanisms.stacks.compile_forward_mode",
    ),
    switches=("n_relu", "radius", "attention", "signal_radius"),
    settings=_SETTINGS,
    executors=_EXECUTORS,
)
