"""Tables of numbers: read, checked column by column, split into features and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icgd.errors import InvalidFile, InvalidParameter

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

EXAMPLES = ("diabetes",)


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
    """Features X (n, d) and targets Y (n, k) as the network sees them."""

    X: Array
    Y: Array
    features: Scale
    targets: Scale


def read_csv(path: Path) -> pd.DataFrame:
    """A CSV file with a header whose cells are all numbers, or a sentence about what is wrong."""
    import pandas as pd

    if path.is_dir():
        raise InvalidFile(f"{path} is a directory. Pass a CSV file with a header.")
    try:
        frame = pd.read_csv(path, skipinitialspace=True, low_memory=False)
    except FileNotFoundError:
        raise InvalidFile(
            f"No file {path}. Pass a CSV file with a header, or use --example diabetes."
        ) from None
    except pd.errors.EmptyDataError:
        raise InvalidFile(f"{path} is empty. Pass a CSV file with a header and rows.") from None
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path} is not UTF-8 text ({error.reason}). Save it as CSV.") from None
    except (pd.errors.ParserError, ValueError) as error:
        raise InvalidFile(
            f"{path} is not a readable CSV file ({error}). Mend the line it names."
        ) from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}. Check the file.") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise InvalidFile(
            f"{path} has rows with more cells than the header has names. Name every column."
        )
    _check_columns(frame, path)
    return frame


def _check_columns(frame: pd.DataFrame, path: Path) -> None:
    if len(frame) == 0:
        raise InvalidFile(f"{path} has a header but no rows. Add at least one example.")
    for position, name in enumerate(frame.columns, 1):
        if str(name).startswith("Unnamed:"):
            raise InvalidFile(
                f"Column {position} of {path} has no name (a saved row index?). Name it or remove it."
            )
    if len(frame.columns) == 1 and any(mark in str(frame.columns[0]) for mark in ";\t|"):
        raise InvalidFile(
            f"{path} has one column named {frame.columns[0]!r}. Separate its cells by commas."
        )
    for name in frame.columns:
        _check_numbers(frame[name], str(name), path)


def _check_numbers(column: pd.Series[Any], name: str, path: Path) -> None:
    import pandas as pd

    # Rows are counted from 1 below the header; blank lines are skipped, so lines could differ.
    missing = column.isna().to_numpy()
    if missing.any():
        raise InvalidFile(
            f"Column {name!r} of {path} has {int(missing.sum())} missing values, the first in row "
            f"{int(missing.argmax()) + 1}. Fill them in or drop those rows."
        )
    numbers = pd.to_numeric(column, errors="coerce")
    bad = ~np.isfinite(numbers.to_numpy(dtype=np.float64))
    if bad.any():
        row = int(bad.argmax())
        raise InvalidFile(
            f"Column {name!r} of {path} holds {str(column.iloc[row])!r} in row {row + 1}, which is not a "
            "finite number. Encode the column as numbers or remove it."
        )


def load_example(name: str) -> tuple[pd.DataFrame, list[str]]:
    """Bundled data and its target columns."""
    if name not in EXAMPLES:
        raise InvalidParameter("--example", name, f"be one of {', '.join(EXAMPLES)}")
    from sklearn.datasets import load_diabetes

    frame = load_diabetes(as_frame=True, scaled=False).frame
    return frame.rename(columns={"target": "progression"}), ["progression"]


def chosen_targets(asked: Sequence[str], columns: Sequence[str], source: str) -> list[str]:
    """Target names from repeated or comma-separated options, each an existing column."""
    names: list[str] = []
    for text in asked:
        # A column whose own name has a comma in it is taken whole.
        parts = [text] if text in columns else [part.strip() for part in text.split(",")]
        names += [part for part in parts if part]
    if not names:
        raise InvalidParameter(
            "--target", list(asked), f"name a column of {source}", remedy=_choice(columns)
        )
    for name in names:
        if name not in columns:
            raise InvalidParameter(
                "--target", name, f"be a column of {source}", remedy=_choice(columns)
            )
    if len(set(names)) != len(names):
        raise InvalidParameter("--target", names, "name every column once")
    if len(names) == len(columns):
        raise InvalidParameter(
            "--target", names, "leave at least one column as a feature",
            remedy="Add a feature column or name fewer targets.",
        )  # fmt: skip
    return names


def _choice(columns: Sequence[str]) -> str:
    shown = ", ".join(map(str, columns[:12]))
    return f"Its columns are: {shown}{', ...' if len(columns) > 12 else ''}."


def make_table(frame: pd.DataFrame, targets: Sequence[str], *, standardize: bool) -> Table:
    """Split columns into features and targets, and standardise both if asked."""
    features = [str(name) for name in frame.columns if name not in targets]
    X, x_scale = _columns(frame, features, standardize)
    Y, y_scale = _columns(frame, list(targets), standardize)
    return Table(X, Y, x_scale, y_scale)


def _columns(frame: pd.DataFrame, names: list[str], standardize: bool) -> tuple[Array, Scale]:
    # A copy: pandas hands out read-only views, which PyTorch warns about.
    values = frame[names].to_numpy(dtype=np.float64, copy=True)
    centre, scale = np.zeros(len(names)), np.ones(len(names))
    if standardize:
        centre, spread = values.mean(axis=0), values.std(axis=0)
        # The spread of a constant column is rounding, not information.
        constant = spread <= 1e-12 * np.maximum(1e-300, np.abs(values).max(axis=0))
        scale = np.where(constant, 1.0, spread)
        values = np.where(constant, 0.0, (values - centre) / scale)
    return values, Scale(tuple(names), centre, scale)
