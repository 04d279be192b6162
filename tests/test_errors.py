"""Every error names the thing, its value and the remedy, and can be caught the usual Python way."""

from __future__ import annotations

import pickle

import pytest

import icgd
from icgd.errors import (
    AssumptionViolated,
    IcgdError,
    InvalidFile,
    InvalidParameter,
    LayoutError,
    OutOfRange,
    TooLarge,
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
        OutOfRange("A head met 9", 9.0, 4.0, "radius", "Recompile."),
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
    assert vars(back) == vars(error)


BEYOND = 10**5000
"""More digits than Python prints, and no float."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: icgd.SGD(lr=BEYOND),
        lambda: icgd.GD(lr=BEYOND),
        lambda: icgd.GD(lr=0.1, box=BEYOND),
        lambda: icgd.Newton(alpha=BEYOND),
        lambda: icgd.Network((BEYOND, 1)),
        lambda: icgd.Network((2, 1)).init(seed=BEYOND),
        lambda: icgd.Ridge(BEYOND),
        lambda: icgd.Ridge(2, lam=BEYOND),
        lambda: icgd.LinearRegression(BEYOND, 2),
        lambda: icgd.LinearRegression(2, 2, x_radius=BEYOND),
        lambda: icgd.huber(BEYOND),
        lambda: icgd.compile(icgd.Network((2, 1)), icgd.SGD(lr=0.1), radius=BEYOND),
        lambda: icgd.compile(icgd.Network((2, 1)), icgd.SGD(lr=0.1), n_grid=BEYOND),
        lambda: icgd.compile(icgd.Ridge(2), icgd.GD(lr=0.1)).run([[1.0, 2.0]], [1.0], steps=BEYOND),
    ],
)
def test_integers_that_no_float_holds_are_refused_in_a_sentence(make):
    with pytest.raises((InvalidParameter, TooLarge)):
        make()


def test_a_keyword_that_run_does_not_have_is_told_what_exists():
    program = icgd.compile(icgd.Network((2, 1)), icgd.SGD(lr=0.1))
    with pytest.raises(InvalidParameter, match=r"`batch_size` must be left out.*icgd\.GD all rows"):
        program.run([[1.0, 2.0]], [[1.0]], batch_size=3)
    init = icgd.Network((2, 1)).init(0)
    with pytest.raises(
        InvalidParameter, match=r"`batch_size` .*program\.predict has no such option"
    ):
        program.predict([[1.0, 2.0]], init, batch_size=3)
    with pytest.raises(InvalidParameter, match=r"`batch_size` .*icgd\.verify has no such option"):
        icgd.verify(program, [[1.0, 2.0]], [[1.0]], init=init, batch_size=3)


def test_weights_that_do_not_fit_name_what_makes_them_so_many():
    with pytest.raises(TooLarge, match=r"initial weights.*most of it for `widths` = \(1000000, "):
        icgd.Network((10**6, 10**6, 1)).init(0)
    with pytest.raises(TooLarge, match=r"initial weights.*most of it for `n_problems` = 10000"):
        icgd.Network((2, 1)).init(0, n_problems=10**30)
