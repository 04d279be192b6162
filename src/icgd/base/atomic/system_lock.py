"""Locks of the operating system: they end with the process that holds them, however it ends."""

from __future__ import annotations

import errno
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows has no flock; nobody waits for anybody there
    fcntl = None

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)
"""What file systems without locks answer."""


def try_lock(descriptor: int, *, wait: bool = False, without_locks: bool = True) -> bool:
    """Lock an open file for this process alone; False if another one holds it.

    wait           wait for the other one instead
    without_locks  the answer on systems that have no such locks
    """
    if fcntl is None:
        return without_locks
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return without_locks
    return True
