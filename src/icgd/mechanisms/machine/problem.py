"""What a machine was compiled from, as files hold it: its tapes, and what the optimizer was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icgd.mechanisms.machine.tape.tape import Tape


class _Shared:
    """Never changed, and so never copied: programs are handed about together with what they were made from."""

    def __deepcopy__(self, memo: object) -> Any:
        return self


class Tapes(_Shared):
    """The tapes of a program by name: "first:8" and "step:8" for batches of 8 rows, "predict:8", "call".

    title  what it trains or computes, for people
    facts  what the host needs to know of the optimizer's state
    """

    def __init__(
        self,
        tapes: Mapping[str, Tape],
        title: str = "a program",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.tapes, self.title, self.facts = dict(tapes), title, dict(facts or {})

    def __repr__(self) -> str:
        steps = ", ".join(f"{name} of {len(tape)} steps" for name, tape in self.tapes.items())
        return f"Tapes({self.title}: {steps})"

    def to_config(self) -> dict[str, Any]:
        """As numbers, names and lists."""
        tapes = {name: tape.to_json() for name, tape in self.tapes.items()}
        return {"title": self.title, "facts": dict(self.facts), "tapes": tapes}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Tapes:
        """What `to_config` wrote."""
        tapes = {name: Tape.from_json(tape) for name, tape in config["tapes"].items()}
        return cls(tapes, str(config["title"]), dict(config["facts"]))


class HostOptimizer(_Shared):
    """The user's optimizer by its name and settings, for people; its steps are on the tapes.

    groups  per parameter group, the settings that are numbers
    """

    def __init__(self, called: str = "none", groups: tuple[Mapping[str, Any], ...] = ()) -> None:
        self.called, self.groups = called, groups

    def __repr__(self) -> str:
        rates = sorted({group["lr"] for group in self.groups if "lr" in group})
        return f"{self.called}({', '.join(f'lr={rate:g}' for rate in rates)})"

    def to_config(self) -> dict[str, Any]:
        """As numbers, names and lists."""
        return {"called": self.called, "groups": [dict(group) for group in self.groups]}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> HostOptimizer:
        """What `to_config` wrote."""
        return cls(str(config["called"]), tuple(dict(group) for group in config["groups"]))
