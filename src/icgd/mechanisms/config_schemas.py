"""What the config of a saved program may say: names, types and ranges, for every construction.

A config that passes can still be one that no compiler would write; the checksum in the weights tells that.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from icgd.transformer.gadgets.heads.spectral_theory import grid_violations
from icgd.transformer.program.files import AnyConfig

NonNegative = Annotated[float, Field(ge=0)]
Size = Annotated[PositiveFloat, Field(ge=1e-100, le=1e100)]
"""A range or a width whose square is a number."""
Slope = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _numbers(value: Any) -> Any:
    """Numbers in lists, to any depth."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, list):
            _numbers(item)
        elif type(item) not in (int, float) or not -1e300 < item < 1e300:
            raise ValueError(f"{str(item)[:40]!r} is no finite number")
    return value


Numbers = Annotated[list[Any], AfterValidator(_numbers)]

# -- optimizers ---------------------------------------------------------------------------------------


class SGDConfig(_Part):
    """icgd.SGD."""

    name: Literal["SGD"]
    lr: PositiveFloat


class GDConfig(_Part):
    """icgd.GD without a box."""

    name: Literal["GD"]
    lr: PositiveFloat


class BoxedGDConfig(GDConfig):
    """icgd.GD for networks."""

    box: PositiveFloat | None


class NewtonConfig(_Part):
    """icgd.Newton."""

    name: Literal["Newton"]
    alpha: PositiveFloat


class PreconditionedConfig(_Part):
    """icgd.PreconditionedGD."""

    name: Literal["PreconditionedGD"]
    lr: PositiveFloat
    alpha: PositiveFloat
    newton_steps: Count


# -- problems -----------------------------------------------------------------------------------------


class NetworkConfig(_Part):
    """icgd.Network with the squared loss."""

    widths: Annotated[list[PositiveInt], Field(min_length=2)]
    activation: str
    output: str
    bias: bool


class LossNetworkConfig(NetworkConfig):
    """icgd.Network with any loss that has a name."""

    loss: str


class LinearModelConfig(_Part):
    """icgd.LinearModel."""

    n_features: PositiveInt
    loss: str
    form: Literal["link", "residual", "margin", "joint"]
    kinked: bool
    lam: NonNegative
    penalty: Literal["l1", "l2"]
    intercept: bool
    x_radius: PositiveFloat | None
    w_radius: PositiveFloat | None
    y_radius: PositiveFloat | None


class LinearRegressionConfig(_Part):
    """icgd.LinearRegression."""

    n_features: PositiveInt
    n_examples: PositiveInt
    n_outputs: PositiveInt
    x_radius: PositiveFloat


class ChainedRegressionConfig(_Part):
    """icgd.LinearRegression with one output."""

    n_features: PositiveInt
    n_examples: PositiveInt
    x_radius: PositiveFloat


class RepresentationConfig(LinearRegressionConfig):
    """icgd.RepresentationRegression."""

    representation: Numbers
    slope: Slope
    lam: NonNegative


class AutoregressionConfig(_Part):
    """icgd.Autoregression."""

    n_features: PositiveInt
    order: PositiveInt
    n_steps: PositiveInt
    representation: Numbers
    slope: Slope
    x_radius: PositiveFloat


class ChainConfig(_Part):
    """icgd.MLPChain."""

    n_features: PositiveInt
    n_layers: PositiveInt
    n_chains: PositiveInt
    slope: Slope
    x_radius: PositiveFloat


# -- options ------------------------------------------------------------------------------------------


class GridConfig(_Part):
    """Heads on a grid."""

    n_grid: Annotated[int, Field(ge=2)]
    rho: Size
    margin: NonNegative
    radius: Size
    temperature: Literal["spectral", "hard"]

    def model_post_init(self, context: Any) -> None:
        """What the numbers must be together."""
        grid = {name: getattr(self, name) for name in GridConfig.model_fields}
        for violation in grid_violations(**grid):
            raise ValueError(violation)


class LinearModelGridConfig(GridConfig):
    """Heads on a grid that also read targets."""

    target_radius: Size
    native: bool


class _StackRanges(_Part):
    n_relu: Annotated[int, Field(ge=3)]
    radius: Size
    signal_radius: Size
    gate: Size
    target_radius: Size
    n_examples: PositiveInt | None


class StackConfig(_StackRanges):
    """The stack that goes backward."""

    knots: Literal["uniform", "adaptive"]
    products: Literal["exact", "attention"]
    ramp: Annotated[float, Field(gt=0, le=1)]


class ForwardConfig(_StackRanges):
    """The stack that differentiates forward."""

    attention: Literal["relu", "tanh", "sigmoid"]


class ProductsConfig(_Part):
    """Products by softmax heads."""

    mode: Literal["spectral", "sym", "four", "printed"]
    sink: Annotated[float, Field(ge=1e-100, le=300)] | None
    scale: Annotated[float, Field(ge=1e-100, le=1)] | None
    n_grid: Annotated[int, Field(ge=2)]


class LinearAttentionConfig(_Part):
    """Attention without softmax."""

    attention: Literal["linear"]


class FittedHeadConfig(_Part):
    """Tokens fitted to a function that is not stored."""

    rates: Numbers
    offset: Numbers
    values: Numbers
    radius: Size
    error: NonNegative
    rigorous: bool


class TablesConfig(_Part):
    """Heads that cannot be fitted again."""

    slope: FittedHeadConfig


def _schema(
    kind: str, problem: type[_Part], optimizer: type[_Part], options: type[_Part]
) -> type[BaseModel]:
    annotations = {
        "problem": problem,
        "optimizer": optimizer,
        "options": options,
        "dtype": Literal["float64", "float32"],
    }
    return type(kind, (AnyConfig,), {"__annotations__": annotations, "__module__": __name__})


class COT_LINEAR(AnyConfig):  # noqa: N801 - named as the other schemas are
    """Besides the usual parts it may hold tokens fitted to a user's function."""

    problem: LinearModelConfig  # type: ignore[assignment]
    optimizer: GDConfig  # type: ignore[assignment]
    options: LinearModelGridConfig  # type: ignore[assignment]
    dtype: Literal["float64", "float32"]
    tables: TablesConfig | None = None


COT_NETWORK = _schema("CotNetwork", NetworkConfig, SGDConfig, GridConfig)
BACKWARD_STACK = _schema("BackwardStack", LossNetworkConfig, BoxedGDConfig, StackConfig)
FORWARD_MODE = _schema("ForwardMode", LossNetworkConfig, BoxedGDConfig, ForwardConfig)
LOOPED_REGRESSION = _schema("LoopedRegression", RepresentationConfig, GDConfig, ProductsConfig)
LOOPED_AUTOREGRESSION = _schema("LoopedSeries", AutoregressionConfig, GDConfig, ProductsConfig)
LOOPED_CHAIN = _schema("LoopedChain", ChainConfig, GDConfig, ProductsConfig)
LOOPED_NEWTON = _schema("LoopedNewton", LinearRegressionConfig, NewtonConfig, ProductsConfig)
LOOPED_PRECONDITIONED = _schema(
    "LoopedPreconditioned", LinearRegressionConfig, PreconditionedConfig, ProductsConfig
)
LOOPED_DECODER = _schema("LoopedDecoder", LinearRegressionConfig, GDConfig, ProductsConfig)
LINEAR_ATTENTION = _schema(
    "LinearAttention", ChainedRegressionConfig, GDConfig, LinearAttentionConfig
)
