"""What a run costs (matrix products only, two operations per entry)."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Cost:
    """Cost of a run: blocks are layer calls; FLOPs count matrix products only."""

    rounds: int
    blocks: int
    live_blocks_max: int
    dense_flops: int
    structured_flops: int

    def as_dict(self) -> dict[str, int]:
        """Plain numbers for a result file."""
        return asdict(self)
