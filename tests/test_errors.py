"""Every error names the thing, its value and the remedy, and can be caught the usual Python way."""

from __future__ import annotations

import pickle

import pytest

from icgd.errors import (
    AssumptionViolated,
    IcgdError,
    InvalidFile,
    InvalidParameter,
    LayoutError,
    raise_all,
)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (InvalidParameter("lr", -1, "be > 0"), ValueError),
        (AssumptionViolated("too few tokens"), ValueError),
        (LayoutError("no slot"), KeyError),
        (InvalidFile("damaged"), ValueError),
    ],
    ids=lambda case: getattr(case, "__name__", type(case).__name__),
)
def test_errors_are_ours_and_pythons(error, builtin):
    assert isinstance(error, IcgdError)
    assert isinstance(error, builtin)


def test_an_invalid_parameter_is_one_sentence_with_name_value_and_remedy():
    error = InvalidParameter("n_grid", 3, "be >= 28", remedy="Raise it.")
    assert str(error) == "`n_grid` must be >= 28. Got 3. Raise it."
    assert (error.name, error.value) == ("n_grid", 3)
    assert str(InvalidParameter("kind", "x", "be 'y'")) == "`kind` must be 'y'. Got 'x'."


def test_one_violation_is_said_plainly_and_several_are_numbered():
    assert str(AssumptionViolated("only this.")) == "only this."
    several = AssumptionViolated("first.", "second.")
    assert several.violations == ("first.", "second.")
    assert str(several) == "2 assumptions are violated: (1) first. (2) second."


def test_a_layout_error_prints_its_sentence_without_quotes():
    assert str(LayoutError("No slot `x`.")) == "No slot `x`."
    assert str(LayoutError()) == ""


def test_raise_all_raises_once_with_everything_and_not_at_all_without():
    raise_all([])
    with pytest.raises(AssumptionViolated) as caught:
        raise_all(text for text in ("a.", "b.", "c."))
    assert caught.value.violations == ("a.", "b.", "c.")


@pytest.mark.parametrize(
    "error",
    [
        AssumptionViolated("a.", "b."),
        LayoutError("no slot"),
        InvalidFile("damaged"),
        InvalidParameter("lr", -1, "be > 0"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_survive_a_trip_between_processes(error):
    """Worker processes send errors back by pickle; one that cannot be unpickled hangs the parent."""
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
