"""Named tensors to blocks of a machine's prompt, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.machine.layer.layouts import off_bank
from icgd.mechanisms.machine.passes.allocate import LASTING
from icgd.mechanisms.machine.schedule import TOKEN, Schedules
from icgd.mechanisms.machine.tape.instruction import Kind, Register
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.program.session import Session


@dataclass(frozen=True)
class Round:
    """One round to run: its tape, and what arrives in it by name."""

    tape: str
    arriving: Mapping[str, Tensor]


class MachineCodec:
    """Instruction tokens, constants, state and data as blocks.

    Statement: [COT] Definition 4.3

    Differs from the paper: registers of a program instead of the layers of a network.
    """

    def __init__(
        self, tapes: Mapping[str, Tape], schedules: Schedules, like: Sequence[Tensor]
    ) -> None:
        self.tapes, self.schedules = tapes, schedules
        self._like = like
        self.tokens = [self._token_values(k) for k in range(len(schedules.kinds))]
        self._compiled_tokens = [dict(values) for values in self.tokens]

    @property
    def like(self) -> Tensor:
        """A tensor with the program's dtype and device."""
        return self._like[0]

    def _token_values(self, index: int) -> dict[str, float]:
        kinds = list(self.schedules.kinds)
        values = {kind.off: float(k != index) for k, kind in enumerate(kinds)}
        for bank in self.schedules.kinds.banks.values():
            values[off_bank(bank)] = float(kinds[index].bank != bank)
        return values

    def is_plain(self) -> bool:
        """See Codec."""
        return self.tokens == self._compiled_tokens

    # -- sessions ---------------------------------------------------------------------------------

    def machine_session(
        self, state: Mapping[str, Tensor], rounds: Sequence[Round], *, flops: int = 0
    ) -> Session:
        """A session that starts from this state."""
        homes = self.schedules.homes
        prompt: dict[Address, Block] = {
            (TOKEN, k): make_block(values) for k, values in enumerate(self.tokens)
        }
        for address, value in self.schedules.constants.items():
            prompt[address] = make_block({"value": self._stored(value)})
        for name, value in state.items():
            prompt[homes.of(name)] = make_block({"value": self._stored(value)})
        templates: dict[Address, Block] = {}

        def arrivals(executor: Any) -> Iterator[Mapping[Address, Block]]:
            for one in rounds:
                arriving = {}
                for name, value in one.arriving.items():
                    address = homes.of(name)
                    fresh = make_block({"value": self._stored(value)})
                    known = templates.get(address)
                    if known is not None:
                        fresh.kind = known.kind
                    arriving[address] = templates[address] = fresh
                yield arriving

        def schedule(round_: int) -> Sequence[Step]:
            return self._steps[rounds[round_ - 1].tape]

        wanted = {address: frozenset({"value"}) for address in self._lasting(rounds)}
        return Session(
            prompt=prompt,
            arrivals=arrivals,
            n_rounds=len(rounds),
            batched=False,
            n_problems=1,
            structured_flops_per_round=flops,
            wanted=wanted,
            decode=lambda live: self.decoded(live, rounds[-1].tape),
            n_columns=1,
            schedule=schedule,
        )

    def bind(self, steps: Mapping[str, Sequence[Step]]) -> None:
        """The schedules of the program's mask, by tape."""
        self._steps = steps

    def _lasting(self, rounds: Sequence[Round]) -> set[Address]:
        names = {name for one in rounds for name in self.tapes[one.tape].outputs}
        return {self.schedules.homes.of(name) for name in names}

    def _stored(self, value: Tensor) -> Tensor:
        """A tensor as blocks hold it: numbers in the program's precision, flags as they are."""
        like = self.like
        own = value.dtype == like.dtype and value.device == like.device and not value.requires_grad
        if own or value.dtype == torch.bool:
            return value
        return value.detach().to(dtype=like.dtype, device=like.device)

    def decoded(self, live: Mapping[Address, Block], tape: str) -> dict[str, Tensor]:
        """What a tape leaves, by name, in its own shapes."""
        return {
            name: self.read(live[self.schedules.homes.of(name)], register)
            for name, register in self.tapes[tape].outputs.items()
        }

    def read(self, block: Block, register: Register) -> Tensor:
        """A register out of its block, also out of literal numbers."""
        value = block.value("value")
        if not isinstance(value, Tensor):
            raise AssumptionViolated(
                f"Register {register.name} was never written: the schedule of this program was altered."
            )
        flat = value.reshape(-1)[: register.size].reshape(register.shape)
        if register.kind is Kind.FLAG and flat.dtype != torch.bool:
            flat = flat > 0.5
        return flat

    def lasting_state(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of named tensors, those that outlive a round."""
        return {name: value for name, value in values.items() if name.startswith(LASTING)}

    # -- the general contract ---------------------------------------------------------------------

    def session(self, X: Any, Y: Any, **how: Any) -> Session:
        """See Codec; machines are run by `TrainingProgram.run`."""
        raise InvalidParameter("X", type(X).__name__, "be run by the program of a machine")

    def prediction(self, X: Any, weights: Any, *, padded: bool) -> tuple[Session, Address]:
        """See Codec."""
        raise InvalidParameter("X", type(X).__name__, "be predicted by the program of a machine")

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Any]]:
        """See Codec."""
        return [(X, Y, init)]

    def output_of(self, block: Block) -> Tensor:
        """See Codec."""
        value = block.value("value")
        assert isinstance(value, Tensor)
        return value

    def join(self, outputs: list[Tensor], session: Session) -> Tensor:
        """See Codec."""
        return torch.cat(outputs)
