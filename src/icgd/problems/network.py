"""The N-layer network a transformer trains in its context."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icgd.base.numbers import LARGEST, is_finite
from icgd.base.preflight import Part, require_room
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.problems.activations import ACTIVATIONS, Activation, activation
from icgd.problems.losses import LOSSES, SQUARED, Loss, built_in

Weights = list[tuple[Tensor, Tensor | None]]
"""One (W, b) per layer, W of shape (..., width_out, width_in); b is None in a network without bias."""


@dataclass(frozen=True)
class NetworkSpec:
    """All a compiler may see of a network: dimensions and kinds, never data or weights."""

    widths: tuple[int, ...]
    activation: str
    output: str
    bias: bool
    loss: Loss = SQUARED

    @property
    def n_layers(self) -> int:
        """The number N of weight layers."""
        return len(self.widths) - 1

    @property
    def d_model(self) -> int:
        """The common width d that every layer is padded to."""
        return max(self.widths)

    def is_linear(self, layer: int) -> bool:
        """Whether layer `layer` (1..N) applies no activation."""
        return layer == self.n_layers and self.output == "linear"

    def activation_of(self, layer: int) -> Activation:
        """What layer `layer` (1..N) applies."""
        return activation(self.output if layer == self.n_layers else self.activation)


class Network:
    """A fully connected network, o_i = r(W_i o_{i-1} + b_i), its last layer linear or activated as well.

    Statement: [COT] Definition 2.2
    Statement: [DEEP] Definition 1
    Statement: [DEEP] Definition 10
    Statement: [BRIDGE] Definition 4

    widths      input width, hidden widths, output width
    activation  "relu", "tanh", "sigmoid", "softplus" or "gelu"
    output      "linear", or the name of the activation
    bias        whether layers have biases
    loss        of one example, summed over the outputs: "squared" is 1/2 |o - y|^2; further "huber",
                "logistic", "poisson", or a Loss made by link_loss, residual_loss or joint_loss

    Differs from the paper: layers may have any widths, and the bias may be left out. [COT] and [DEEP]
    apply the activation everywhere (`output=activation`, no bias in [DEEP]), [BRIDGE] has one linear
    output and no bias.

    >>> net = Network(widths=(3, 4, 1))
    >>> [tuple(W.shape) for W, b in net.init(seed=0)]
    [(4, 3), (1, 4)]
    """

    def __init__(
        self,
        widths: Sequence[int],
        activation: str = "relu",
        output: str = "linear",
        bias: bool = True,
        loss: str | Loss = "squared",
    ) -> None:
        given: object = widths
        try:
            given = tuple(widths)
            # True is an integer to Python, and never a width somebody meant.
            widths = tuple(-1 if isinstance(w, bool) else operator.index(w) for w in given)
        except TypeError:
            raise InvalidParameter("widths", given, "be a sequence of integers >= 1") from None
        if len(widths) < 2:
            raise InvalidParameter(
                "widths",
                widths,
                "have at least two entries (input, output)",
                remedy="For example widths=(10, 16, 1).",
            )
        if any(not 1 <= w <= LARGEST for w in widths):
            raise InvalidParameter("widths", given, "be integers from 1 to 2^62")
        kinds = sorted(set(ACTIVATIONS) - {"linear"})
        if activation not in kinds:
            raise InvalidParameter("activation", activation, f"be one of {kinds}")
        if output not in ("linear", activation):
            raise InvalidParameter(
                "output", output, f"be 'linear' or the network's activation, {activation!r}"
            )
        self.spec = NetworkSpec(widths, activation, output, bool(bias), _known_loss(loss))

    @property
    def widths(self) -> tuple[int, ...]:
        """Input width, hidden widths, output width."""
        return self.spec.widths

    @property
    def n_layers(self) -> int:
        """The number N of weight layers."""
        return self.spec.n_layers

    def __repr__(self) -> str:
        s = self.spec
        loss = "" if s.loss is SQUARED else f", loss={s.loss.name!r}"
        return (
            f"Network(widths={s.widths}, activation={s.activation!r}, output={s.output!r}, "
            f"bias={s.bias}{loss})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    @property
    def title(self) -> str:
        """In a few words.

        >>> Network((1, 8, 1)).title
        'a ReLU network 1-8-1'
        """
        written = {"relu": "ReLU", "gelu": "GELU"}
        kind = written.get(self.spec.activation, self.spec.activation)
        return f"a {kind} network {'-'.join(map(str, self.widths))}"

    def to_config(self) -> dict[str, Any]:
        """All of it as numbers and names; of a loss of the user's own only the name."""
        s = self.spec
        return {
            "widths": list(s.widths),
            "activation": s.activation,
            "output": s.output,
            "bias": s.bias,
            "loss": s.loss.name,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Network:
        """The network `to_config` describes."""
        name = str(config.get("loss", SQUARED.name))
        loss = built_in(name)
        if loss is None:
            raise AssumptionViolated(
                f"The loss {name!r} is a function of the user's own, which is not stored with a program. "
                "Compile it again from the function."
            )
        return cls(
            tuple(config["widths"]), config["activation"], config["output"], config["bias"], loss
        )

    def init(
        self, seed: int = 0, *, n_problems: int | None = None, dtype: torch.dtype = torch.float64
    ) -> Weights:
        """He initialisation: W ~ N(0, 2 / width_in), b = 0; `n_problems` gives a batch of them."""
        try:
            generator = torch.Generator().manual_seed(operator.index(seed))
        except (TypeError, ValueError, RuntimeError):
            raise InvalidParameter(
                "seed", seed, "be an integer from -2^63 to 2^64 - 1", remedy="For example seed=0."
            ) from None
        batch = () if n_problems is None else (n_problems,)
        n_weights = sum(a * b for a, b in zip(self.widths, self.widths[1:], strict=False))
        # Drawn in double precision and scaled in place; another dtype is a copy.
        n = n_problems or 1
        name, value = ("n_problems", n) if n > n_weights else ("widths", self.widths)
        require_room("Drawing initial weights", [Part(name, value, 8.0 * n_weights * n)])
        weights: Weights = []
        for d_in, d_out in zip(self.widths, self.widths[1:], strict=False):
            W = torch.randn(*batch, d_out, d_in, generator=generator, dtype=torch.float64)
            W = W.mul_(math.sqrt(2.0 / d_in)).to(dtype)
            b = torch.zeros(*batch, d_out, dtype=dtype) if self.spec.bias else None
            weights.append((W, b))
        return weights

    def radius_for(
        self, *, x_bound: float, y_bound: float, weight_bound: float, bias_bound: float = 0.0
    ) -> float:
        """A radius that every activation and every error signal provably stays in.

        `weight_bound` bounds the largest absolute row sum and column sum of every W_i during the
        whole training. The result is a product of norms: safe, and in deep networks so large that
        it costs digits, which is why it is offered and not the default.

        >>> Network((2, 2, 1)).radius_for(x_bound=1.0, y_bound=1.0, weight_bound=2.0)
        10.0
        """
        for name, value in (
            ("x_bound", x_bound),
            ("y_bound", y_bound),
            ("weight_bound", weight_bound),
        ):
            if not (is_finite(value) and value > 0):
                raise InvalidParameter(name, value, "be a finite number > 0")
        if not (is_finite(bias_bound) and bias_bound >= 0):
            raise InvalidParameter("bias_bound", bias_bound, "be a finite number >= 0")
        activation, largest = x_bound, x_bound
        for _ in range(self.n_layers):
            activation = weight_bound * activation + bias_bound
            largest = max(largest, activation)
        signal = activation + y_bound
        for _ in range(self.n_layers):
            largest = max(largest, signal)
            signal *= weight_bound
        return largest


def _known_loss(loss: str | Loss) -> Loss:
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise InvalidParameter(
            "loss",
            loss,
            f"be one of {sorted(LOSSES)} or a Loss",
            remedy="Wrap a function of one output and its target: icgd.joint_loss(f).",
        )
    known = built_in(loss)
    if known is None:
        raise InvalidParameter("loss", loss, f"be one of {sorted(LOSSES)} or a Loss")
    return known
