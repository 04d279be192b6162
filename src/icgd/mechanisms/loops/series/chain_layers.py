"""Chains of thought with networks: pick the states of one phase, undo the activation, regress, answer.

Tokens are the states s_i^0 .. s_i^L of N chains, then s^0 .. s^l of the one to continue, then ANS. After the
entry layers the tokens of phase l hold s^l in `h`; those with a successor hold s^l / N in `k` and minus the
inverse activation of s^{l+1} in `r`; all other tokens hold exactly 0. The loop is the one of regression.
"""

from __future__ import annotations

import torch

from icgd.mechanisms.loops.common.parts import SHARP, MlpBuilder, hard_head
from icgd.mechanisms.loops.common.shift_codes import ShiftCodes, shift_codes
from icgd.mechanisms.loops.regression.layers import LoopOptions
from icgd.mechanisms.loops.regression.shared_layers import answer_layer, descent_layer
from icgd.problems import MLPChain
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import Rows, SoftmaxSublayer
from icgd.transformer.nn.stack.stack import Stack, Sublayer

FLAGS = {
    "is_state": "a state of any chain",
    "is_last": "the last state before ANS",
    "is_answer": "ANS: the sink, and where the answer goes",
}
EVERY: Rows = (("is_state", 1.0), ("is_answer", 1.0))
"""1 in every token."""


def chain_codes(problem: MLPChain) -> ShiftCodes:
    """Codes of as many tokens as the longest prompt has."""
    per_chain = problem.n_layers + 1
    return shift_codes(problem.n_chains * per_chain + per_chain)


def chain_layout(problem: MLPChain) -> Layout:
    """s | next | h | k | r | out | phase | asked | mismatch | code | indicators.

    Statement: [ALGO] Theorem 3.3

    Differs from the paper: its Equation 7, the filtered prompt, is missing. The phase of a token and which
    one is last are positional inputs, as its positional embeddings would have to tell.
    """
    d, n_phases = problem.n_features, problem.n_layers + 1
    return Layout(
        [
            Slot("s", (d,), "the state", each=True),
            Slot("next", (d,), "the state of the next token", each=True),
            Slot("h", (d,), "the state, if its phase is the one asked", each=True),
            Slot("k", (d,), "h / N of training tokens", each=True),
            Slot("r", (d,), "W s - inverse activation of the next state", each=True),
            Slot("out", (d,), "the answer, on the last token", each=True),
            Slot("phase", (n_phases,), "one-hot: which state of its chain", each=True),
            Slot("asked", (n_phases,), "one-hot: phase of the last state", each=True),
            Slot("mismatch", (), "1 on states of another phase", each=True),
            Slot("code", (chain_codes(problem).width,), "code of the position", each=True),
            *(Slot(name, (), meaning, each=True) for name, meaning in FLAGS.items()),
        ]
    )


class ChainBuilder:
    """Entry, loop and read-out layers on named slots."""

    def __init__(self, problem: MLPChain, options: LoopOptions) -> None:
        self.p, self.o = problem, options
        self.codes = chain_codes(problem)
        self.layout = chain_layout(problem)

    def entry(self) -> Stack:
        """Two layers that filter.

        Statement: [ALGO] Theorem 3.3

        Differs from the paper: it takes seven layers from a lemma of another paper; two are enough.
        """
        layers = {"look": self.look(), "match": self.match(), "filter": self.filter()}
        return self.stack(layers, 2)

    def look(self) -> SoftmaxSublayer:
        """One head brings the next state, the other tells every token the phase of the last one."""
        shift = self.codes.head(self.layout, 1, [("s", 1.0)], "next", self.o.dtype)
        tell = hard_head(
            self.layout,
            [[(slot, SHARP * float(f)) for slot, f in EVERY]],
            [[("is_last", 1.0)]],
            [("phase", 1.0)],
            "asked",
            self.o.dtype,
        )
        return SoftmaxSublayer({"next": shift, "asked": tell})

    def match(self) -> Sublayer:
        """mismatch <- is_state - sum_j relu(phase_j + asked_j - 1), exact for one-hot codes."""
        units = MlpBuilder(self.layout, self.o.dtype).write("mismatch", [("is_state", 1.0)])
        for pick in torch.eye(self.p.n_layers + 1, dtype=torch.float64).unsqueeze(1):
            both = [("phase", pick), ("asked", pick), *((slot, -1.0) for slot, _ in EVERY)]
            units.write("mismatch", both, scale=-1.0, below=0.0)
        return units.layer()

    def filter(self) -> Sublayer:
        """h, k and r from s and next on tokens of the asked phase; 0 elsewhere."""
        shut: Rows = [("mismatch", 1.0), ("is_answer", 1.0)]
        closed: Rows = [*shut, ("is_last", 1.0)]
        units = MlpBuilder(self.layout, self.o.dtype)
        units.write("h", [("s", 1.0)], off=shut)
        units.write("k", [("s", 1 / self.p.n_chains)], off=closed)
        units.write("r", [("next", 1.0)], scale=-1.0, below=1 / self.p.slope, off=closed)
        return units.layer()

    def loop(self) -> Stack:
        """One step of gradient descent; see loop_layers.py."""
        return self.stack({"descend": descent_layer(self.layout, self.o, "h", EVERY)}, 1)

    def readout(self) -> Stack:
        """ANS reads r = W s of the last state, then applies the activation.

        Statement: [ALGO] Theorem 3.3

        Differs from the paper: the answer goes to a slot of its own; ANS has no next token to ask for, and
        what the shift head left in `next` there is a mixture.
        """
        leaky = MlpBuilder(self.layout, self.o.dtype)
        # leaky(z) = z + (1 - slope) relu(-z)
        leaky.write("out", [("out", -1.0)], scale=1.0 - self.p.slope, below=0.0)
        answer = answer_layer(self.layout, EVERY, self.o.dtype)
        return self.stack({"answer": answer, "activate": leaky.layer()}, 1)

    def stack(self, layers: dict[str, Sublayer], n_layers: int) -> Stack:
        """Attention and feed-forward sublayers that belong together count as one layer."""
        return Stack(self.layout, layers, n_layers=n_layers, radius=self.o.bound)
