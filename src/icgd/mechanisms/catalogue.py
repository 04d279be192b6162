"""Every construction of the package, in the order in which `icgd.compile` and the command line list them."""

from __future__ import annotations

from icgd.mechanisms.cot_linear.construction import COT_LINEAR
from icgd.mechanisms.cot_network.construction import COT_NETWORK
from icgd.mechanisms.loops.decoder.construction import LOOPED_DECODER
from icgd.mechanisms.loops.linear_attention.construction import LINEAR_ATTENTION
from icgd.mechanisms.loops.newton.constructions import LOOPED_NEWTON, LOOPED_PRECONDITIONED
from icgd.mechanisms.loops.regression.constructions import FUSED_LOOP, LOOPED_REGRESSION
from icgd.mechanisms.loops.series.constructions import LOOPED_AUTOREGRESSION, LOOPED_CHAIN
from icgd.mechanisms.machine.construction import MACHINE
from icgd.mechanisms.stacks.constructions import BACKWARD_STACK, FORWARD_MODE

OWN = (
    COT_NETWORK,
    COT_LINEAR,
    BACKWARD_STACK,
    FORWARD_MODE,
    LOOPED_REGRESSION,
    FUSED_LOOP,
    LOOPED_NEWTON,
    LOOPED_PRECONDITIONED,
    LOOPED_DECODER,
    LINEAR_ATTENTION,
    LOOPED_AUTOREGRESSION,
    LOOPED_CHAIN,
    MACHINE,
)
