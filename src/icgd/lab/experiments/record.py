"""Records: what an experiment gave, as one JSON file from which its page and figure are made.

Laptop-scale records come with the package; `icgd reproduce --list` and the results pages read them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from icgd.base.atomic import write_text
from icgd.errors import InvalidFile
from icgd.lab.experiments.claim import Claim
from icgd.lab.experiments.experiment import Scale

DIGITS = 5
"""Significant digits that are kept."""
HUGE = 1e300
"""Stands for infinity in a file: JSON has none."""


class Addition(BaseModel):
    """Rows of cells that an experiment gained after its record was made.

    command  what computed them
    before   digest of the cells that the record had until then
    n_rows   how many there are, at the end of the rows
    seconds  of work
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str
    before: str
    n_rows: int
    seconds: float
    torch: str
    icgd: str


class Record(BaseModel):
    """One run of an experiment.

    command  what makes it again
    settings what the scale had chosen
    cells    digest of all cells: other settings or options have another one
    seconds  work of all cells, trained models that were there before included, divided by the workers
    costs    seconds of every scale, as estimated where this was recorded; of its own scale as measured
    remark   what a reader should know of this run
    added    rows that joined the record later, from cells without a training
    verdicts on every claim, as judged when the record was written; the rows are what counts
    rows     one per cell
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["icgd-reproduction/1"] = "icgd-reproduction/1"
    name: str
    scale: Scale
    command: str
    settings: dict[str, Any]
    cells: str
    seeds: int
    workers: int
    seconds: float
    torch: str
    icgd: str
    costs: dict[Scale, float] = {}
    remark: str = ""
    added: list[Addition] = []
    verdicts: list[dict[str, Any]] = []
    rows: list[dict[str, Any]]

    def write(self, path: Path) -> None:
        """As JSON, whole or not at all; one row per line, so that differences can be read."""
        fields = rounded(self.model_dump())
        rows = ",\n".join(json.dumps(row) for row in fields.pop("rows"))
        head = json.dumps(fields, indent=1, ensure_ascii=False)[:-2]
        write_text(path, f'{head},\n "rows": [\n{rows}\n]\n}}\n')


def verdicts_of(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Claims and what became of them, as a record keeps them."""
    return [
        {
            "claim": claim.short,
            "verdict": claim.verdict.value,
            "ours": claim.ours,
            "measured": claim.found,
            "shortfalls": list(claim.shortfalls),
        }
        for claim in claims
    ]


def read_record(path: Path) -> Record:
    """A record from its file."""
    try:
        record = Record.model_validate_json(path.read_text(encoding="utf-8"))
        return record.model_copy(update={"rows": restored(record.rows)})
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValidationError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidFile(f"{path} is no record of an experiment: {reason}.") from error


def recorded_path(name: str) -> Path:
    """Where the record of an experiment is kept in the package."""
    folder = resources.files("icgd.lab.experiments").joinpath("recorded", f"{name}.json")
    return Path(str(folder))


def recorded(name: str) -> Record | None:
    """The record that comes with the package, if there is one."""
    path = recorded_path(name)
    return read_record(path) if path.is_file() else None


def restored(value: Any) -> Any:
    """None as NaN again and what is huge as infinity, so that numbers are numbers.

    >>> restored({"a": [0.5, None, -1e300]})
    {'a': [0.5, nan, -inf]}
    """
    if value is None:
        return math.nan
    if isinstance(value, float) and abs(value) >= HUGE:
        return math.copysign(math.inf, value)
    if isinstance(value, dict):
        return {k: restored(v) for k, v in value.items()}
    if isinstance(value, list):
        return [restored(v) for v in value]
    return value


def rounded(value: Any) -> Any:
    """Floats with few digits, NaN as None, infinity as a huge number; everything else as it is.

    >>> rounded({"a": [0.123456789, float("nan"), 3, float("inf")]})
    {'a': [0.12346, None, 3, 1e+300]}
    """
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return float(f"{max(-HUGE, min(HUGE, value)):.{DIGITS}g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return value
