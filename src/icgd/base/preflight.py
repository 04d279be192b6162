"""Whether a piece of work fits this machine, decided from its sizes before any memory is taken.

Whoever is about to build something says what each of its parameters costs (`Part`), and `require_room`
refuses if the sum exceeds the memory that is available or the time anybody waits. The figures are
estimates: tests hold them within a factor of 3 of what is measured, for everything above 50 MB.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from icgd.errors import InvalidParameter, TooLarge, shown

MEMORY, TIME = "ICGD_MEMORY_LIMIT", "ICGD_TIME_LIMIT"
"""Environment variables: bytes (such as 8GB) and seconds to go by instead, or none for no limit."""
PATIENCE = 600.0
"""Seconds that preparing something may take, unless the environment says otherwise."""
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


@dataclass(frozen=True)
class Part:
    """What one parameter costs.

    name, value  the parameter, as the user knows it
    bytes        most memory that is in use at once for its sake
    seconds      work of one core
    """

    name: str
    value: object
    bytes: float = 0.0
    seconds: float = 0.0


def require_room(what: str, parts: Sequence[Part]) -> None:
    """Refuse what does not fit into memory or takes too long, naming the parameter to blame.

    >>> require_room("Making tea", [Part("cups", 2, bytes=1e3)])
    >>> require_room("Making tea", [Part("cups", 10**30, bytes=1e33)])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    icgd.errors.TooLarge: Making tea takes about 1e+15 EB of memory, most of it for `cups` = 1000...
    """
    require_memory(what, [replace(part, seconds=0.0) for part in parts])
    seconds = sum(part.seconds for part in parts)
    if seconds > time_limit():
        worst = max(parts, key=lambda part: part.seconds)
        raise TooLarge(
            f"{what} takes about {as_time(seconds)} of one core, most of it for {_named(worst)}; the limit is "
            f"{as_time(time_limit())}. Lower `{worst.name}`; or set {TIME} to more seconds, or to none."
        )


def require_memory(what: str, parts: Sequence[Part]) -> None:
    """Refuse what does not fit into memory, however long it takes: for work that can be watched and stopped.

    >>> require_memory("Making tea", [Part("cups", 10**30, 1e33, 1e12)])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    icgd.errors.TooLarge: Making tea takes about 1e+15 EB of memory and 32 thousand years, most of it for ...
    """
    memory = sum(part.bytes for part in parts)
    room = memory_limit() if memory > 0 else math.inf
    if memory <= room:
        return
    worst = max(parts, key=lambda part: part.bytes)
    seconds = sum(part.seconds for part in parts)
    duration = f" and {as_time(seconds)}" if seconds >= 1 else ""
    raise TooLarge(
        f"{what} takes about {as_bytes(memory)} of memory{duration}, most of it for {_named(worst)}, and "
        f"{as_bytes(room)} are available. Lower `{worst.name}`; or set {MEMORY} to the memory that may be "
        "used, such as 32GB, or to none."
    )


def _named(part: Part) -> str:
    value = shown(part.value)
    return f"`{part.name}` = {value if len(value) <= 60 else f'{value[:50]}...'}"


def memory_limit() -> float:
    """Bytes that may be taken: what ICGD_MEMORY_LIMIT says, or else what the system still has."""
    text = os.environ.get(MEMORY)
    if text is None:
        return available_memory()
    if text.strip().lower() == "none":
        return math.inf
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kMGT]?)(i?)B?\s*", text)
    if match is None:
        raise InvalidParameter(MEMORY, text, "be a size such as 8GB or 500MB, or none")
    number, unit, binary = match.groups()
    scale = 1024 ** list(UNITS).index(unit) if binary else UNITS[unit]
    return float(number) * scale


def time_limit() -> float:
    """Seconds that may be spent on preparing something."""
    text = os.environ.get(TIME)
    if text is None:
        return PATIENCE
    try:
        seconds = math.inf if text.strip().lower() == "none" else float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise InvalidParameter(TIME, text, "be a number of seconds > 0, or none")
    return seconds


def available_memory() -> float:
    """Bytes this process can still take: free memory, and limits of the process and of its container."""
    return max(0.0, min(_limits(), default=math.inf))


def _limits() -> Iterator[float]:
    free = _field("/proc/meminfo", "MemAvailable")
    if free is not None:
        yield free
    elif "SC_PHYS_PAGES" in os.sysconf_names:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for most, used in CGROUPS:
        limit, now = _number(most), _number(used)
        if limit is not None and now is not None:
            yield limit - now
    if sys.platform == "linux":
        yield from _process_limits()


def _process_limits() -> Iterator[float]:
    """What `ulimit` leaves."""
    import resource

    for kind, field in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY:
            yield soft - (_field("/proc/self/status", field) or 0.0)


def _field(path: str, name: str) -> float | None:
    """Bytes of a line `name:  123 kB`."""
    try:
        match = re.search(rf"^{name}:\s+(\d+) kB", Path(path).read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if match is None else 1024.0 * int(match[1])


def _number(path: str) -> float | None:
    """The number a file holds; "max" means there is no limit."""
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return float(text) if text.isdigit() else None


def as_bytes(n: float) -> str:
    """A size for people.

    >>> as_bytes(1_540_000_000), as_bytes(12_000), as_bytes(-3)
    ('1.5 GB', '12 kB', '0 B')
    """
    n = max(0.0, float(min(n, 1e300)))
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if n < 1000:
            return f"{n:.2g} {unit}" if n < 100 else f"{n:.0f} {unit}"
        n /= 1000
    return f"{n:.2g} EB"


def as_time(seconds: float) -> str:
    """A duration for people.

    >>> as_time(90), as_time(7300), as_time(1e12)
    ('90 s', '2 h', '32 thousand years')
    """
    seconds = float(min(seconds, 1e300))
    year = 365 * 86400.0
    units = (
        (1e3 * year, "thousand years"),
        (year, "years"),
        (86400.0, "days"),
        (3600.0, "h"),
        (120.0, "min"),
    )
    for size, name in units:
        if seconds >= size:
            return f"{seconds / (60.0 if name == 'min' else size):.2g} {name}"
    return f"{seconds:.0f} s"
