"""Targets made by networks whose weights differ from prompt to prompt, and by decision trees."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.lab.tasks.base import PairTask
from icgd.lab.tasks.distributions import Vectors, two_gaussians
from icgd.problems.regression import positive

AT_MINUS_TWO = two_gaussians(1.0, 0.0)
N_REFERENCE = 64
"""Inputs on which a network is measured before it is standardised."""
MAX_REDRAWS = 20


@dataclass(frozen=True)
class ReluTwoLayerRegression(PairTask):
    """y = scale * sqrt(2 / width) * v.relu(W x): Var(y) = d_x scale^2 for standard normals.

    hidden_layer_size  width of the hidden layer
    """

    name: ClassVar[str] = "relu_2nn_regression"

    _: KW_ONLY
    hidden_layer_size: int = 100
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("hidden_layer_size", self.hidden_layer_size)
        positive("scale", self.scale)

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """The network's outputs."""
        width = self.hidden_layer_size
        hidden = (xs @ self.columns(xs.shape[2], width, len(xs), generator)).relu()
        outputs = hidden @ self.columns(width, self.d_y, len(xs), generator)
        return self.scale * math.sqrt(2 / width) * outputs


@dataclass(frozen=True)
class NetworkRegression(PairTask):
    """Targets of an N-layer ReLU network with a linear last layer and random parameters.

    Statement: [DEEP] Appendix G

        f(x) = W_N relu(W_{N-1} ... relu(W_1 x)),  y = (f(x) - m) / s

    n_layers           N, the number of weight matrices
    hidden_layer_size  width of the hidden layers
    weights            of every parameter: N(0, 1), or N(mu, 1) for a shift
    inputs             N(-2, I) unless given; `two_gaussians` has the mixtures
    scaling            "function": m and s are mean and deviation of f over 64 inputs drawn apart from the
                       prompt, for each output. Then every prompt's targets have variance about 1 whatever mu
                       and N are, and R2 is 0 for a constant. "fixed": m = 0, and every W is multiplied by
                       sqrt(2 / fan_in) (the last by sqrt(1 / fan_in)), a constant; "none": f itself.
    bias               whether layers have biases, drawn like weights and scaled alike
    slope              > 0: leaky ReLU

    With "function", a network that is constant on its 64 inputs (all units of a layer shut) is drawn again.

    Differs from the paper: it gives neither the width of the networks that make the data (200, as in its
    baseline, is taken), nor biases (none), nor a scale. Unscaled outputs are of size 10^3 and more, and a
    shift multiplies them; hence "function". R2 pooled over prompts also sees that "fixed" targets differ
    mostly in their mean: the mean of a prompt's targets has R2 = 0.87 there, and 0.0 with "function".
    Parameters N(-0.5, I) on inputs N(-2, I), as printed, make wide ReLU networks of 3 layers and more dead:
    layer 1 gives positive numbers, layer 2 negative ones, f = 0. Narrow ones often survive; the paper gives no
    width. A slope helps.
    """

    name: ClassVar[str] = "network_regression"

    _: KW_ONLY
    inputs: Vectors = AT_MINUS_TWO
    n_layers: int = 3
    hidden_layer_size: int = 200
    scaling: Literal["function", "fixed", "none"] = "function"
    bias: bool = False
    slope: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("n_layers", self.n_layers)
        whole_number("hidden_layer_size", self.hidden_layer_size)
        if not 0 <= self.slope <= 1:
            raise InvalidParameter("slope", self.slope, "lie in [0, 1]")
        if self.scaling not in ("function", "fixed", "none"):
            raise InvalidParameter("scaling", self.scaling, 'be "function", "fixed" or "none"')

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """Outputs of one network per prompt."""
        n_points = xs.shape[1]
        if self.scaling == "function":
            shape = (len(xs), N_REFERENCE, xs.shape[2])
            xs = torch.cat([xs, self.draw(self.inputs, shape, generator)], 1)
        outputs = self._network(xs, generator)
        if self.scaling != "function":
            return outputs
        for _ in range(MAX_REDRAWS):
            dead = is_constant(outputs[:, n_points:])
            if not dead.any():
                break
            outputs[dead] = self._network(xs[dead], generator)
        else:
            raise AssumptionViolated(
                f"Networks of network_regression are constant on their inputs, {MAX_REDRAWS} times in a row: "
                "all ReLU units of some layer are shut. Take slope > 0 (leaky ReLU), or other means of "
                "weights and inputs."
            )
        measured = outputs[:, n_points:]
        return (outputs[:, :n_points] - measured.mean(1, keepdim=True)) / measured.std(
            1, keepdim=True
        )

    def _network(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        hidden = xs
        for layer in range(1, self.n_layers + 1):
            last = layer == self.n_layers
            n_in = hidden.shape[2]
            W = self.columns(n_in, self.d_y if last else self.hidden_layer_size, len(xs), generator)
            # "function" divides by what comes out in any case; this keeps float32 in its range.
            factor = 1.0 if self.scaling == "none" else math.sqrt((1 if last else 2) / n_in)
            hidden = factor * (hidden @ W)
            if self.bias:
                b = self.draw(self.weights, (len(xs), 1, W.shape[2]), generator)
                hidden = hidden + factor * b
            hidden = hidden if last else leaky_relu(hidden, self.slope)
        return hidden


def is_constant(outputs: Tensor) -> Tensor:
    """(B,) bool: whether some output of (B, n, d_y) is constant, up to rounding."""
    size = outputs.abs().amax(1)
    return (outputs.std(1) <= 1e-6 * size).any(-1)


@dataclass(frozen=True)
class DecisionTree(PairTask):
    """A full binary tree: node by node, right if one coordinate is > 0, down to a random value.

    depth    decisions from root to leaf
    weights  distribution of the leaves' values; which coordinate a node asks for is uniform
    """

    name: ClassVar[str] = "decision_tree"

    _: KW_ONLY
    depth: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("depth", self.depth)
        if self.depth > 16:
            raise InvalidParameter(
                "depth", self.depth, "be at most 16", remedy="There are 2^depth leaves."
            )

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """The values of the leaves that the inputs reach."""
        n_prompts, n_points, n_dims = xs.shape
        n_leaves = 2**self.depth
        asks = torch.randint(n_dims, (n_prompts, n_leaves - 1), generator=generator)
        values = self.draw(self.weights, (n_prompts, n_leaves, self.d_y), generator)
        goes_right = xs > 0
        node = torch.zeros(n_prompts, n_points, dtype=torch.int64)
        for _ in range(self.depth):
            coordinate = asks.gather(1, node).unsqueeze(-1)
            node = 2 * node + 1 + goes_right.gather(2, coordinate).squeeze(-1)
        leaf = (node - (n_leaves - 1)).unsqueeze(-1).expand(-1, -1, self.d_y)
        return values.gather(1, leaf)
