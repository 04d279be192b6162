"""What every estimator shares: a program, its run, predictions by the transformer, pickling."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.problems.arrays import plain_tensor, refuse_masked
from icgd.transformer.program import Program, Run
from icgd.transformer.program.files import rebuilt

Array = NDArray[np.float64]

WIDER = 4.0
"""By how much the range grows for rows that lie outside it."""
NARROWEST, WIDEST = 2.0**-256, 2.0**256
"""Radii whose squares, and those of the grid's spacing, are still ordinary numbers."""


class InContextEstimator(BaseEstimator, ABC):
    """A scikit-learn estimator that is fitted by running a compiled program on its data.

    program_  the frozen transformer
    run_      its run on the training data; `run_.weights` is what it wrote last
    """

    program_: Program
    run_: Run

    @abstractmethod
    def _compiled(self, radius: float) -> Program:
        """The fitted program, compiled again for another range."""

    def _ask(self, X: Tensor) -> Array:
        """The transformer's own predictions for rows as it saw them in training.

        A prompt's range is known when it is compiled for; that of new rows is not. Rows that lead out
        of it are answered by the same program compiled for a wider one.
        """
        program = self.program_
        while True:
            try:
                return program.predict(X, self.run_.weights).numpy()
            except AssumptionViolated:
                # Ends at the latest where no program can be compiled for so wide a range.
                program = self._compiled(grid_radius(WIDER * program.radius))

    def __getstate__(self) -> dict[str, Any]:
        # A program holds functions, which cannot be pickled. Its config and weights are all of it.
        state = dict(super().__getstate__())
        if "run_" in state:
            program = self.program_
            state["program_"] = {"config": program.config, "weights": program.state_dict()}
            state["run_"] = replace(self.run_, program=None)  # type: ignore[arg-type]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "run_" in state:
            stored = state["program_"]
            program = rebuilt(stored["config"])
            program.load_state_dict(stored["weights"])
            state["program_"] = program
            state["run_"] = replace(state["run_"], program=program)
        super().__setstate__(state)


def checked_data(estimator: BaseEstimator, X: Any, *targets: Any, **how: Any) -> Any:
    """scikit-learn's `validate_data` in float64, for arrays it would read more into than they hold."""
    for name, value in zip(("X", "y"), (X, *targets), strict=False):
        refuse_masked(name, value)
        if isinstance(value, Tensor):
            plain_tensor(name, value)
    return validate_data(estimator, X, *targets, dtype=np.float64, **how)


def as_tensor(values: Any) -> Tensor:
    """A float64 copy, so that no array of the caller is shared with the prompt."""
    return torch.tensor(np.asarray(values, dtype=np.float64))


def grid_radius(value: float) -> float:
    """The smallest power of two >= value: as a radius it scales a grid without rounding."""
    if not value <= WIDEST:
        raise AssumptionViolated(
            f"A head would have to read numbers of size {value:.3g}; the widest grid spans {WIDEST:.3g}. "
            "Scale the data."
        )
    return 2.0 ** math.ceil(math.log2(max(value, NARROWEST)))
