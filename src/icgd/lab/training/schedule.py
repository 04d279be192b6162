"""How a learning rate falls."""

from __future__ import annotations

import math


def cosine(done: float, total: float = 1.0) -> float:
    """From 1 at the start to 0 when all is done, and 0 from then on.

    >>> cosine(0.0), round(cosine(5, 10), 12), cosine(1.0), cosine(2.0)
    (1.0, 0.5, 0.0, 0.0)
    """
    return 0.5 * (1.0 + math.cos(math.pi * min(done, total) / total))
