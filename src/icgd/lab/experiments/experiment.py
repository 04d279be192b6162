"""What an experiment is: cells at four scales, and what is made of their rows.

Everything after the cells (tables, claims, figure) is a function of the rows alone, so a recorded experiment
can be judged and drawn again without running it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.errors import InvalidParameter
from icgd.lab.experiments.claim import Claim as Claim
from icgd.lab.scales import SCALES as SCALES
from icgd.lab.scales import Scale as Scale
from icgd.lab.sweeps.cells import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
Rows = Sequence[Row]


@dataclass(frozen=True)
class ResultTable:
    """A table of a results page; cells are what is printed."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a scale chooses; experiments add their own settings.

    seeds  number of seeds: 0, 1, ..
    """

    seeds: int

    def settings(self) -> dict[str, Any]:
        """Names and values, for the table of scales."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Experiment(ABC):
    """One figure of a paper, or a few that belong together.

    name     of the command
    paper    short name: COT, DEEP, LSA, ALGO, BRIDGE
    where    section and figures
    title    what is shown
    question what the experiment asks, in one plain sentence: its page begins with it
    differs  what is not as in the paper, and why
    sizes    settings of each scale
    seeds_differ  in what, besides the weights they start from
    takes_text    reads sentences, which a user may supply (`with_text`)
    only_cpu      its trainings are too small for another device
    more_options  of the command that makes this again
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    where: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str] = ""
    differs: ClassVar[tuple[str, ...]] = ()
    sizes: ClassVar[Mapping[Scale, Size]]
    seeds_differ: ClassVar[str] = "Every seed has prompts of its own."
    takes_text: ClassVar[bool] = False
    only_cpu: ClassVar[bool] = False

    @property
    def more_options(self) -> str:
        """What else the command that makes this again is given."""
        return ""

    def with_text(self, paths: Sequence[Path]) -> Experiment:
        """This experiment on sentences of the user's own."""
        names = [str(path) for path in paths]
        raise InvalidParameter("--text", names, f"be left out: {self.name} reads no text")

    def check_device(self, device: str | None) -> None:
        """Complain about a device that would have no effect."""
        if self.only_cpu and device not in (None, "cpu"):
            raise InvalidParameter("--device", device, f"be cpu: {self.name} runs there alone")

    def prepared(self, scale: Scale, models: Path, *, fetch: bool = True) -> Experiment:
        """This experiment with all that its cells need, which may be kept in `models`.

        fetch  False: what is not there is not fetched, and nothing is written
        """
        return self

    def as_recorded(self, rows: Rows) -> Experiment:
        """This experiment with all that rows tell of what they were measured on."""
        return self

    def size(self, scale: str) -> Any:
        """The settings of a scale."""
        for name, size in self.sizes.items():
            if name == scale:
                return size
        raise InvalidParameter("--scale", scale, f"be one of {', '.join(self.sizes)}")

    @abstractmethod
    def cells(self, scale: Scale) -> list[Cell]:
        """Independent pieces of work, whose rows are all that is kept."""

    @abstractmethod
    def tables(self, rows: Rows) -> list[ResultTable]:
        """What the rows say, in numbers."""

    @abstractmethod
    def claims(self, rows: Rows) -> list[Claim]:
        """What the paper says, held against the rows."""

    @abstractmethod
    def draw(self, rows: Rows) -> Figure:
        """The figure."""
