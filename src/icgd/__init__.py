"""icgd: compile (model, optimizer) into a frozen transformer that trains the model in its context.

The whole public interface is on this screen. Names are imported when first used, so that
`import icgd` and `icgd --help` stay fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
"""Read by the build and written into every result file."""

if TYPE_CHECKING:
    from icgd.base.construction import Construction as Construction
    from icgd.base.construction import register as register
    from icgd.costs import cost as cost
    from icgd.errors import AssumptionViolated as AssumptionViolated
    from icgd.errors import CaptureMismatch as CaptureMismatch
    from icgd.errors import DataDependentStep as DataDependentStep
    from icgd.errors import FaultyPlugin as FaultyPlugin
    from icgd.errors import IcgdError as IcgdError
    from icgd.errors import InvalidFile as InvalidFile
    from icgd.errors import InvalidParameter as InvalidParameter
    from icgd.errors import LayoutError as LayoutError
    from icgd.errors import TooLarge as TooLarge
    from icgd.errors import UnsupportedOp as UnsupportedOp
    from icgd.estimators import InContextLasso as InContextLasso
    from icgd.estimators import InContextLogisticRegression as InContextLogisticRegression
    from icgd.estimators import InContextMLPRegressor as InContextMLPRegressor
    from icgd.estimators import InContextPoissonRegressor as InContextPoissonRegressor
    from icgd.estimators import InContextRidge as InContextRidge
    from icgd.mechanisms.compiler import compile as compile
    from icgd.mechanisms.cot_linear.options import LinearModelOptions as LinearModelOptions
    from icgd.mechanisms.cot_network.options import CotOptions as CotOptions
    from icgd.mechanisms.loops.options import DecoderOptions as DecoderOptions
    from icgd.mechanisms.loops.options import LinearAttentionOptions as LinearAttentionOptions
    from icgd.mechanisms.loops.options import ProductOptions as ProductOptions
    from icgd.mechanisms.machine.compile import trace as trace
    from icgd.mechanisms.machine.options import MachineOptions as MachineOptions
    from icgd.mechanisms.stacks.options import BackwardStackOptions as BackwardStackOptions
    from icgd.mechanisms.stacks.options import ForwardModeOptions as ForwardModeOptions
    from icgd.problems import GD as GD
    from icgd.problems import GLM as GLM
    from icgd.problems import SGD as SGD
    from icgd.problems import Autoregression as Autoregression
    from icgd.problems import Lasso as Lasso
    from icgd.problems import LinearModel as LinearModel
    from icgd.problems import LinearRegression as LinearRegression
    from icgd.problems import Loss as Loss
    from icgd.problems import MLPChain as MLPChain
    from icgd.problems import Network as Network
    from icgd.problems import Newton as Newton
    from icgd.problems import PreconditionedGD as PreconditionedGD
    from icgd.problems import RepresentationRegression as RepresentationRegression
    from icgd.problems import Ridge as Ridge
    from icgd.problems import huber as huber
    from icgd.problems import joint_loss as joint_loss
    from icgd.problems import link_loss as link_loss
    from icgd.problems import margin_loss as margin_loss
    from icgd.problems import residual_loss as residual_loss
    from icgd.transformer.gadgets.heads.spectral_head import FunctionHead as FunctionHead
    from icgd.transformer.gadgets.heads.spectral_head import SpectralHead as SpectralHead
    from icgd.transformer.program import Blueprint as Blueprint
    from icgd.transformer.program import Program as Program
    from icgd.transformer.program import Run as Run
    from icgd.transformer.runtime.recording.recorder import Recorder as Recorder
    from icgd.transformer.trace import Trace as Trace
    from icgd.verification.bounds.exact import Exact as Exact
    from icgd.verification.verdict.verdict import Verdict as Verdict
    from icgd.verification.verify import verify as verify
    from icgd.verification.walks.record_trace import record_trace as record_trace

_HOMES = {
    "Construction": "base.construction",
    "register": "base.construction",
    "compile": "mechanisms.compiler",
    "LinearModelOptions": "mechanisms.cot_linear.options",
    "CotOptions": "mechanisms.cot_network.options",
    "DecoderOptions": "mechanisms.loops.options",
    "LinearAttentionOptions": "mechanisms.loops.options",
    "ProductOptions": "mechanisms.loops.options",
    "MachineOptions": "mechanisms.machine.options",
    "trace": "mechanisms.machine.compile",
    "BackwardStackOptions": "mechanisms.stacks.options",
    "ForwardModeOptions": "mechanisms.stacks.options",
    "Blueprint": "transformer.program",
    "Exact": "verification.bounds.exact",
    "Verdict": "verification.verdict.verdict",
    "cost": "costs",
    "AssumptionViolated": "errors",
    "CaptureMismatch": "errors",
    "DataDependentStep": "errors",
    "FaultyPlugin": "errors",
    "IcgdError": "errors",
    "InvalidFile": "errors",
    "InvalidParameter": "errors",
    "LayoutError": "errors",
    "TooLarge": "errors",
    "UnsupportedOp": "errors",
    "InContextLasso": "estimators",
    "InContextLogisticRegression": "estimators",
    "InContextMLPRegressor": "estimators",
    "InContextPoissonRegressor": "estimators",
    "InContextRidge": "estimators",
    "FunctionHead": "transformer.gadgets.heads.spectral_head",
    "SpectralHead": "transformer.gadgets.heads.spectral_head",
    "GD": "problems",
    "RepresentationRegression": "problems",
    "Newton": "problems",
    "PreconditionedGD": "problems",
    "MLPChain": "problems",
    "LinearRegression": "problems",
    "Autoregression": "problems",
    "GLM": "problems",
    "SGD": "problems",
    "Lasso": "problems",
    "LinearModel": "problems",
    "Loss": "problems",
    "Network": "problems",
    "Ridge": "problems",
    "huber": "problems",
    "joint_loss": "problems",
    "link_loss": "problems",
    "margin_loss": "problems",
    "residual_loss": "problems",
    "Program": "transformer.program",
    "Run": "transformer.program",
    "Recorder": "transformer.runtime.recording.recorder",
    "Trace": "transformer.trace",
    "record_trace": "verification.walks.record_trace",
    "verify": "verification.verify",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        missing = f"module 'icgd' has no attribute {name!r}"
        if name[:1].isupper():
            from icgd.problems.foreign_optimizers import ABSENT, THERE_IS

            missing += f": no construction has that optimizer. {THERE_IS}" if name in ABSENT else ""
        raise AttributeError(missing)
    return getattr(import_module(f"icgd.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
