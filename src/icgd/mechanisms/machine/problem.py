"""What a machine was compiled from, as files hold it: its tapes, and what the optimizer was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icgd.mechanisms.machine.tape.tape import Tape


@dataclass(frozen=True)
class Tapes:
    """The tapes of a program by name: "first:8" and "step:8" for batches of 8 rows, "predict:8", "call".

    title  what it trains or computes, for people
    """

    tapes: Mapping[str, Tape]
    title: str = "a program"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_config(self) -> dict[str, Any]:
        """As numbers, names and lists."""
        tapes = {name: tape.to_json() for name, tape in self.tapes.items()}
        return {"title": self.title, "facts": dict(self.facts), "tapes": tapes}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Tapes:
        """What `to_config` wrote."""
        tapes = {name: Tape.from_json(tape) for name, tape in config["tapes"].items()}
        return cls(tapes, str(config["title"]), dict(config["facts"]))


@dataclass(frozen=True)
class HostOptimizer:
    """The user's optimizer by its name and settings, for people; its steps are on the tapes.

    groups  per parameter group, the settings that are numbers
    """

    called: str = "none"
    groups: tuple[Mapping[str, Any], ...] = ()

    def to_config(self) -> dict[str, Any]:
        """As numbers, names and lists."""
        return {"called": self.called, "groups": [dict(group) for group in self.groups]}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> HostOptimizer:
        """What `to_config` wrote."""
        return cls(str(config["called"]), tuple(dict(group) for group in config["groups"]))
