"""Errors that teach the fix: every message names the thing, its value and the remedy."""

from __future__ import annotations

from collections.abc import Iterable


class IcgdError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidParameter(IcgdError, ValueError):
    """An argument that can never be right, whatever the data.

    >>> raise InvalidParameter("lr", -1.0, "be > 0", remedy="Pass a positive learning rate.")
    Traceback (most recent call last):
    ...
    icgd.errors.InvalidParameter: `lr` must be > 0. Got -1.0. Pass a positive learning rate.
    """

    def __init__(self, name: str, value: object, must: str, *, remedy: str = "") -> None:
        self.name, self.value = name, value
        self.must, self.remedy = must, remedy
        message = f"`{name}` must {must}. Got {shown(value)}."
        super().__init__(f"{message} {remedy}".strip())

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (test workers, sweeps); the message alone would not do.
        return _rebuild, (self.name, self.value, self.must, self.remedy)


def shown(value: object) -> str:
    """repr, also of integers with more digits than Python prints."""
    try:
        return repr(value)
    except ValueError:
        return f"{type(value).__name__} with too many digits to print"


def _rebuild(name: str, value: object, must: str, remedy: str) -> InvalidParameter:
    return InvalidParameter(name, value, must, remedy=remedy)


class AssumptionViolated(IcgdError, ValueError):
    """An assumption of a construction does not hold: for this compile, or on this data.

    `violations` lists every assumption that failed; compile-time checks report all of them at once.
    """

    def __init__(self, *violations: str) -> None:
        self.violations = violations
        if len(violations) == 1:
            super().__init__(violations[0])
        else:
            super().__init__(
                f"{len(violations)} assumptions are violated: "
                + " ".join(f"({i}) {text}" for i, text in enumerate(violations, 1))
            )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.violations


class OutOfRange(AssumptionViolated):
    """A number that a head or a closed unit met while a program ran, beyond what it is certified for.

    met     what met it, the number, where and when
    value   its size, NaN if it is none
    radius  of the certified range
    option  of compile, which widens the range
    remedy  what to do about it
    limits  the range in symbols, where it is not the numbers up to the radius
    """

    def __init__(
        self, met: str, value: float, radius: float, option: str, remedy: str, limits: str = ""
    ) -> None:
        self.met, self.value, self.radius = met, value, radius
        self.option, self.remedy, self.limits = option, remedy, limits
        where = f"and is certified for {limits} only"
        if not limits:
            where = f"outside its certified range [-{radius:g}, {radius:g}]"
        super().__init__(f"{met}, {where}. {remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        shared = (self.met, self.value, self.radius, self.option)
        return OutOfRange, (*shared, self.remedy, self.limits)

    def advising(self, remedy: str) -> OutOfRange:
        """The same with another remedy."""
        return OutOfRange(self.met, self.value, self.radius, self.option, remedy, self.limits)


class UnsupportedOp(AssumptionViolated):
    """Operations of a captured step that the machine has no instruction for; all of them at once."""

    def __init__(self, *operations: str) -> None:
        super().__init__(*operations)
        if len(operations) > 1:
            listed = "".join(f" ({i}) {text}" for i, text in enumerate(operations, 1))
            self.args = (
                f"The machine cannot run {len(operations)} operations of the step:{listed}",
            )


class DataDependentStep(AssumptionViolated):
    """A step whose course depends on computed numbers, so that it is not one fixed sequence.

    file, line, condition  where Python asks for a number, and the text of that line
    shape                  whether a shape depends on it, rather than a branch
    """

    def __init__(self, file: str, line: int, condition: str, *, shape: bool = False) -> None:
        self.file, self.line, self.condition, self.shape = file, line, condition, shape
        what = (
            "The shape of a result depends on computed numbers"
            if shape
            else "Python branches on a computed number, or prints or converts it"
        )
        remedy = (
            "Keep every entry, and weigh those you do not want with 0 (torch.where)."
            if shape
            else "Compute both branches and choose with torch.where; print and log outside the step."
        )
        super().__init__(
            f"{what}, so the step is not one fixed sequence: {file}:{line}: {condition}. {remedy}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _data_dependent, (self.file, self.line, self.condition, self.shape)


def _data_dependent(file: str, line: int, condition: str, shape: bool) -> DataDependentStep:
    return DataDependentStep(file, line, condition, shape=shape)


class CaptureMismatch(AssumptionViolated):
    """A captured graph that does not compute what the step computes.

    name        of the result that is furthest off
    difference  the largest difference of an entry
    size        the largest entry
    """

    def __init__(self, name: str, difference: float, size: float) -> None:
        self.name, self.difference, self.size = name, difference, size
        super().__init__(
            f"The captured graph and the step disagree: `{name}` differs by {difference:.3g}, its largest "
            f"entry is {size:.3g}. The step must reach its numbers through the model, the optimizer and its "
            "arguments alone: call model.parameters() inside the step, not before it."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return CaptureMismatch, (self.name, self.difference, self.size)


class LayoutError(IcgdError, KeyError):
    """A slot that does not exist, or a value that does not fit its slot."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidFile(IcgdError, ValueError):
    """A file or directory that is missing, corrupt, or was not written by this package."""


class DirectoryInUse(InvalidFile):
    """A directory that another process is writing to.

    holder  the other process, as its lock names it
    """

    def __init__(self, directory: object, holder: str) -> None:
        self.directory, self.holder = str(directory), holder
        super().__init__(
            f"{directory} is being written by another process ({holder}). Wait until it has finished, stop it, "
            "or choose another directory."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return DirectoryInUse, (self.directory, self.holder)


class FaultyPlugin(IcgdError, RuntimeError):
    """A construction from outside that raised, or gave something else than it must."""


class TooLarge(IcgdError, MemoryError):
    """Work that would not fit into memory or would take too long, refused before it began."""


def raise_all(violations: Iterable[str]) -> None:
    """Raise one AssumptionViolated carrying every collected violation; do nothing if there is none."""
    collected = tuple(violations)
    if collected:
        raise AssumptionViolated(*collected)
