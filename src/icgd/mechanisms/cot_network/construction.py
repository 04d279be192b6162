"""The chain of thought that trains ReLU networks by SGD: what the rest of the package asks of it."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.cot_network"
COT_NETWORK = Construction(
    name="softmax_cot_network",
    problem="icgd.problems:Network",
    optimizer="icgd.problems:SGD",
    options=f"{_HERE}.options:CotOptions",
    choose=f"{_HERE}.compile:choose",
    build=f"{_HERE}.compile:build",
    method="cot",
    label="chain of thought",
    lead="Every round the same layer read one example and wrote the network's new weights; beside "
    "it torch.optim.SGD trained the same network from the same start on the same examples.",
    noun="SGD",
    title="one frozen softmax layer, applied again and again, trains",
    summary="one softmax layer and a chain of thought",
    statement="[COT] Proposition 4.4",
    rounds="epochs",
    starts=True,
    schema="icgd.mechanisms.config_schemas:COT_NETWORK",
    size="icgd.mechanisms.sizes:softmax_cot_network",
    verifier="icgd.verification.cot_network:verify_network",
    walk="icgd.verification.walks.network:SgdWalk",
    cost="icgd.costs.cot_account:cot_cost",
    parts=(
        "problems.network:Network",
        "transformer.mask_rules:DynamicMask",
        "transformer.gadgets.heads.spectral_head:SpectralHead",
        "transformer.gadgets.gates.gate",
        "transformer.gadgets.gates.closed_unit",
        "mechanisms.cot_network.codec",
        "mechanisms.cot_network.step_kinds",
        "mechanisms.cot_network.layer",
        "mechanisms.cot_network.compile",
    ),
    switches=("temperature", "n_grid", "rho", "radius"),
)
