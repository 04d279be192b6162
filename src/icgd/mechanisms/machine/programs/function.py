"""Programs that compute a function of tensors, once or again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.mechanisms.machine.programs.codec import Round
from icgd.mechanisms.machine.programs.program import MachineProgram
from icgd.transformer.runtime.executors.choose import ExecutorName

TAPE = "call"


class FunctionProgram(MachineProgram):
    """A function in context: `program(a, b)`, or `program.run(a, b, steps=50)`, which feeds results back in."""

    def __call__(self, *arguments: Any, executor: ExecutorName = "structured") -> Any:
        """The function's results: a tensor, or a tuple of them."""
        results = self._results(self._inputs(arguments), executor)
        return results[0] if len(results) == 1 else tuple(results)

    def run(  # type: ignore[override]
        self,
        *arguments: Any,
        steps: int,
        executor: ExecutorName = "structured",
        record: Callable[[int, tuple[Tensor, ...]], None] | None = None,
    ) -> Any:
        """Apply the function `steps` times; its results become its first arguments, the others stay.

        record  called with (step, results) after every step
        """
        check_count("steps", steps)
        inputs = self._inputs(arguments)
        names = list(inputs)
        self._check_fed_back(names)
        outputs = self.tapes.tapes[TAPE].outputs

        def feed_back(step: int, values: Mapping[str, Tensor]) -> None:
            results = tuple(values[name] for name in outputs)
            inputs.update(zip(names, results, strict=False))  # what arrives in the next round
            if record is not None:
                record(step, results)

        ended = self.execute({}, [Round(TAPE, inputs)] * steps, executor=executor, after=feed_back)
        results = [ended.values[name] for name in outputs]
        return results[0] if len(results) == 1 else tuple(results)

    def _results(self, inputs: dict[str, Tensor], executor: ExecutorName) -> list[Tensor]:
        ended = self.execute({}, [Round(TAPE, inputs)], executor=executor)
        outputs = self.tapes.tapes[TAPE].outputs
        return [ended.values[name] for name in outputs]

    def _inputs(self, arguments: tuple[Any, ...]) -> dict[str, Tensor]:
        expected = self.tapes.tapes[TAPE].inputs
        if len(arguments) != len(expected):
            raise InvalidParameter(
                "arguments", len(arguments), f"be {len(expected)} tensors, as in the example"
            )
        inputs = {}
        for (name, register), value in zip(expected.items(), arguments, strict=True):
            tensor = torch.as_tensor(value)
            if tuple(tensor.shape) != register.shape:
                raise InvalidParameter(
                    name,
                    tuple(tensor.shape),
                    f"have the shape of the example, {register.shape}",
                    remedy="Compile with an example of that shape.",
                )
            inputs[name] = tensor
        return inputs

    def _check_fed_back(self, names: list[str]) -> None:
        tape = self.tapes.tapes[TAPE]
        for name, register in zip(names, tape.outputs.values(), strict=False):
            if tape.inputs[name].shape != register.shape:
                raise InvalidParameter(
                    "steps",
                    register.shape,
                    f"have results of the shape of the arguments they replace ({tape.inputs[name].shape})",
                )


def check_count(name: str, value: object) -> None:
    """Refuse what is no number of steps."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidParameter(name, value, "be a whole number >= 1")
