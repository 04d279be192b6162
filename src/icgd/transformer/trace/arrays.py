"""Pools of numbers: tensors are stored once, in base64, and referred to by place and shape."""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

PoolName = Literal["f8", "f4"]
LARGEST_UNFOLDED = 512 * 2**20
"""Bytes of a pool above which it is not unfolded; a recorder keeps below it, whatever its budget."""
TYPES: dict[str, np.dtype[Any]] = {"f8": np.dtype("<f8"), "f4": np.dtype("<f4")}


class ArrayStore:
    """Collects tensors; equal ones share their place.

    >>> store = ArrayStore()
    >>> store.put([[1.0, 2.0]]), store.put([1.0, 2.0]), store.put(3.0)
    (['f8', 0, 1, 2], ['f8', 0, 2], ['f8', 2])
    """

    def __init__(self) -> None:
        self._parts: dict[str, list[bytes]] = {"f8": [], "f4": []}
        self._counts = {"f8": 0, "f4": 0}
        self._known: dict[tuple[str, bytes], int] = {}

    @property
    def raw_size(self) -> int:
        """Bytes held, before they are compressed and written in base64."""
        return sum(n * TYPES[name].itemsize for name, n in self._counts.items())

    @property
    def largest_pool(self) -> int:
        """Bytes of the larger pool, which is what a reader has to unfold at once."""
        return max(n * TYPES[name].itemsize for name, n in self._counts.items())

    def put(self, values: Any, pool: PoolName = "f8") -> list[Any]:
        """A reference to these values."""
        array = np.ascontiguousarray(np.asarray(values, dtype=TYPES[pool]))
        raw = array.tobytes()
        key = (pool, raw if len(raw) < 64 else hashlib.blake2b(raw, digest_size=16).digest())
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = self._counts[pool]
            self._parts[pool].append(raw)
            self._counts[pool] += array.size
        return [pool, place, *np.shape(values)]

    def pools(self) -> dict[str, dict[str, Any]]:
        """All numbers, encoded."""
        return {
            name: {
                "count": self._counts[name],
                "encoding": "deflate",
                "data": _deflated(b"".join(parts), TYPES[name].itemsize),
            }
            for name, parts in self._parts.items()
        }


def _deflated(raw: bytes, itemsize: int) -> str:
    """Bytes of one significance beside each other, where they repeat; compressed; in base64."""
    columns = np.frombuffer(raw, dtype=np.uint8).reshape(-1, itemsize).T.tobytes()
    return base64.b64encode(zlib.compress(columns)).decode()


def decode(name: PoolName, pool: Any) -> NDArray[Any]:
    """The numbers of a pool; a ValueError says why it cannot be read, and no bomb unfolds.

    Memory is taken for as many numbers as the pool declares, and for none if that is above the limit.

    >>> store = ArrayStore(); _ = store.put([1.0, -2.5])
    >>> from icgd.transformer.trace.format import Pool
    >>> decode("f8", Pool(**store.pools()["f8"])).tolist()
    [1.0, -2.5]
    """
    size = pool.count * TYPES[name].itemsize
    if size > LARGEST_UNFOLDED:
        raise ValueError(
            f"it declares {pool.count} numbers; {LARGEST_UNFOLDED // TYPES[name].itemsize} are allowed"
        )
    raw = base64.b64decode(pool.data, validate=True)
    if pool.encoding == "deflate":
        raw = _inflated(raw, size)
    if len(raw) != size:
        raise ValueError(f"it holds {len(raw)} bytes or more for {pool.count} numbers")
    if pool.encoding == "deflate":
        raw = np.frombuffer(raw, dtype=np.uint8).reshape(TYPES[name].itemsize, -1).T.tobytes()
    return np.frombuffer(raw, dtype=TYPES[name])


def _inflated(raw: bytes, size: int) -> bytes:
    """At most `size` + 1 bytes; if there are exactly `size`, zlib has compared its checksum of them."""
    unfolding = zlib.decompressobj()
    try:
        content = unfolding.decompress(raw, size + 1)
        if len(content) == size and not unfolding.eof:
            content += unfolding.decompress(unfolding.unconsumed_tail, 1)
    except zlib.error as error:
        raise ValueError(f"it does not decompress ({error})") from error
    if len(content) == size and (not unfolding.eof or unfolding.unused_data):
        raise ValueError("its compressed data do not end where they should")
    return content


def look_up(pools: Mapping[Any, NDArray[Any]], reference: Sequence[Any] | float) -> NDArray[Any]:
    """The tensor a reference points to, or the number that stands in its place."""
    if isinstance(reference, (int, float)):
        return np.asarray(float(reference))
    name, place, *shape = reference
    return pools[name][place : place + math.prod(shape)].reshape(shape)
