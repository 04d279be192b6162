"""Tables of numbers: read, checked column by column, split into features and targets."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icgd.base.preflight import MEMORY, as_bytes, memory_limit
from icgd.cli.run.settings import EXAMPLES as EXAMPLES
from icgd.errors import InvalidFile, InvalidParameter, TooLarge

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none")
"""Cells that stand for no value, in any case of letters."""


@dataclass(frozen=True)
class Scale:
    """z-scores per column: value = centre + scale * z; a constant column has scale 1."""

    names: tuple[str, ...]
    centre: Array
    scale: Array

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Plain numbers for a result file."""
        return {
            name: {"centre": float(c), "scale": float(s)}
            for name, c, s in zip(self.names, self.centre, self.scale, strict=True)
        }


@dataclass(frozen=True)
class Table:
    """Features X (n, d) and targets Y (n, k) as the network sees them; notes a reader must know."""

    X: Array
    Y: Array
    features: Scale
    targets: Scale
    notes: tuple[str, ...] = ()
    digest: str = ""
    """Of names and numbers as they were read: equal for equal tables, whatever their file is called."""


def read_csv(path: Path) -> pd.DataFrame:
    """A CSV file with a header whose cells are all numbers, or a sentence about what is wrong."""
    cells = _read_cells(path)
    names = [str(name) for name in cells.iloc[0]]
    _check_header(names, path)
    if len(cells) == 1:
        raise InvalidFile(f"{path} has a header but no rows. Add at least one example.")
    body = cells.iloc[1:].reset_index(drop=True)
    body.columns = names
    return body.apply(lambda column: _numbers(column, path))


def _read_cells(path: Path) -> pd.DataFrame:
    """Every cell as it is written, the header being row 0.

    Left to itself pandas would rename columns of the same name, read True as 1, and take the cells
    a header has no name for as row labels or drop them.
    """
    import pandas as pd

    if path.is_dir():
        raise InvalidFile(f"{path} is a directory. Pass a CSV file with a header.")
    try:
        _check_size(path)
        return pd.read_csv(path, header=None, dtype=str, na_filter=False, skipinitialspace=True)
    except FileNotFoundError:
        raise InvalidFile(
            f"No file {path}. Pass a CSV file with a header, or use --example diabetes."
        ) from None
    except pd.errors.EmptyDataError:
        raise InvalidFile(f"{path} is empty. Pass a CSV file with a header and rows.") from None
    except UnicodeDecodeError as error:
        raise InvalidFile(
            f"{path} is not UTF-8 text ({error.reason}). Save it as CSV with encoding UTF-8."
        ) from None
    except (pd.errors.ParserError, ValueError) as error:
        raise InvalidFile(_unreadable(path, error)) from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}. Check the file.") from None


CELL, LETTER = 130.0, 2.0
"""Bytes that a cell takes while a table is read, and each of its letters."""


def _check_size(path: Path) -> None:
    """Refuse a table that does not fit, by what it holds: a small file may inflate to any size.

    The file is read in pieces, no further than to the point where it is too large.
    """
    from pandas.io.common import get_handle

    cells = letters = 0
    room = memory_limit()
    with get_handle(path, "rb", compression="infer") as opened:
        while piece := opened.handle.read(2**20):
            data = piece.encode() if isinstance(piece, str) else piece
            cells += data.count(b",") + data.count(b"\n")
            letters += len(data)
            taken = CELL * cells + LETTER * letters
            if taken > room:
                raise TooLarge(
                    f"{path} holds more than {as_bytes(letters)} of text in {cells:,} cells, which take about "
                    f"{as_bytes(taken)} of memory to read, and {as_bytes(room)} are available. Use fewer rows; "
                    f"or set {MEMORY} to the memory that may be used, such as 32GB, or to none."
                )


def _unreadable(path: Path, error: ValueError) -> str:
    extra = _first_long_row(path)
    if extra is None:
        return f"{path} is not a readable CSV file ({error}). Mend the line it names."
    names, line, cells = extra
    return (
        f"The row in line {line} of {path} has {cells} cells and the header has {names} names. Name every "
        "column, or remove the extra cells (write decimals with a point)."
    )


def _first_long_row(path: Path) -> tuple[int, int, int] | None:
    """Names in the header, line and cells of the first row with more cells than that, if there is one."""
    from pandas.io.common import get_handle

    try:
        with get_handle(path, "r", encoding="utf-8", compression="infer") as opened:
            rows = csv.reader(opened.handle, skipinitialspace=True)
            n_names = 0
            for cells in rows:
                n_names = n_names or len(cells)
                if len(cells) > n_names:
                    return n_names, rows.line_num, len(cells)
    except (csv.Error, OSError, UnicodeDecodeError):
        pass
    return None


def _check_header(names: list[str], path: Path) -> None:
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise InvalidFile(
            f"{path} has one column named {names[0]!r}. Separate its cells by commas."
        )
    for position, name in enumerate(names, 1):
        if not name.strip():
            raise InvalidFile(
                f"Column {position} of {path} has no name (a saved row index?). Name it or remove it."
            )
        first = names.index(name) + 1
        if first != position:
            raise InvalidFile(
                f"Columns {first} and {position} of {path} are both named {name!r}. Rename or remove one."
            )


def _numbers(column: pd.Series[Any], path: Path) -> pd.Series[Any]:
    """A column of text as finite numbers."""
    import pandas as pd

    # Rows are counted from 1 below the header; blank lines are skipped, so lines could differ.
    missing = column.str.strip().str.lower().isin(MISSING).to_numpy()
    if missing.any():
        raise InvalidFile(
            f"Column {column.name!r} of {path} has {int(missing.sum())} missing values, the first in row "
            f"{int(missing.argmax()) + 1}. Fill them in or drop those rows."
        )
    numbers = pd.to_numeric(column, errors="coerce").astype(np.float64)
    bad = ~np.isfinite(numbers.to_numpy())
    if bad.any():
        row = int(bad.argmax())
        raise InvalidFile(
            f"Column {column.name!r} of {path} holds {column.iloc[row]!r} in row {row + 1}, which is not a "
            "finite number. Encode the column as numbers or remove it."
        )
    return numbers


def load_example(name: str) -> tuple[pd.DataFrame, list[str]]:
    """Bundled data and its target columns."""
    if name not in EXAMPLES:
        raise InvalidParameter("--example", name, f"be one of {', '.join(EXAMPLES)}")
    from sklearn.datasets import load_breast_cancer, load_diabetes

    if name == "breast_cancer":
        frame = load_breast_cancer(as_frame=True).frame
        return frame.rename(columns={"target": "benign"}), ["benign"]
    frame = load_diabetes(as_frame=True, scaled=False).frame
    return frame.rename(columns={"target": "progression"}), ["progression"]


def make_table(
    frame: pd.DataFrame,
    targets: Sequence[str],
    *,
    standardize: bool,
    standardize_target: bool | None = None,
) -> Table:
    """Split columns into features and targets, and standardise both if asked.

    standardize_target  overrides `standardize` for the targets
    """
    features = [str(name) for name in frame.columns if name not in targets]
    X, x_scale = _columns(frame, features, standardize)
    Y, y_scale = _columns(
        frame, list(targets), standardize if standardize_target is None else standardize_target
    )
    return Table(X, Y, x_scale, y_scale, tuple(_notes(Y, targets)), _digest(frame, targets))


def _digest(frame: pd.DataFrame, targets: Sequence[str]) -> str:
    seen = hashlib.sha256(json.dumps([[str(c) for c in frame.columns], list(targets)]).encode())
    seen.update(np.ascontiguousarray(frame.to_numpy(dtype=np.float64)).tobytes())
    return seen.hexdigest()[:16]


def _notes(Y: Array, targets: Sequence[str]) -> Iterator[str]:
    """Why there is no R2, if there is none."""
    if len(Y) == 1:
        yield "The table has a single row, so R2 is undefined."
        return
    for name, column in zip(targets, Y.T, strict=True):
        if (column == column[0]).all():
            yield f"Target {name!r} is the same in every row, so R2 is undefined."


def _columns(frame: pd.DataFrame, names: list[str], standardize: bool) -> tuple[Array, Scale]:
    # A copy: pandas hands out read-only views, which PyTorch warns about.
    values = frame[names].to_numpy(dtype=np.float64, copy=True)
    centre, scale = np.zeros(len(names)), np.ones(len(names))
    if standardize:
        # In units of a power of two near the largest value, which is exact, no square can overflow
        # or vanish.
        _, unit = np.frexp(np.abs(values).max(axis=0))
        values = np.ldexp(values, -unit)
        mean, spread = values.mean(axis=0), values.std(axis=0)
        # The spread of a constant column is rounding, not information.
        constant = spread <= 1e-12 * np.abs(values).max(axis=0)
        spread = np.where(constant, 1.0, spread)
        values = np.where(constant, 0.0, (values - mean) / spread)
        centre, scale = np.ldexp(mean, unit), np.where(constant, 1.0, np.ldexp(spread, unit))
        _check_scales(names, frame, scale)
    return values, Scale(tuple(names), centre, scale)


def _check_scales(names: list[str], frame: pd.DataFrame, scale: Array) -> None:
    """A scale below the normal numbers would not lead back to the values."""
    for name, s in zip(names, scale, strict=True):
        if s < np.finfo(np.float64).tiny:
            raise InvalidParameter(
                f"column {name}",
                float(frame[name].abs().max()),
                "hold larger values to be standardised",
                remedy="Multiply the column by a constant.",
            )
