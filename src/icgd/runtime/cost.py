"""What a layer costs, counted from its shapes (matrix products only, two operations per entry)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from icgd.nn.layer import Layer


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


def dense_parameters(layer: Layer, n_columns: int) -> int:
    """Entries of the literal matrices."""
    return sum(_feed_forward_sizes(layer)) + layer.attention.dense_parameters(n_columns)


def dense_flops_per_step(layer: Layer, n_columns: int) -> int:
    """Products of one call with literal matrices: every column, every head, every grid token."""
    total = layer.attention.dense_flops(n_columns)
    for ffn in (layer.pre, layer.post):
        n_units = sum(group.size for group in ffn.unit_groups())
        s, t = ffn.source.width, ffn.target.width
        total += n_columns * (s * n_units + n_units * t + s * t)
    return 2 * total


def _feed_forward_sizes(layer: Layer) -> list[int]:
    sizes = []
    for ffn in (layer.pre, layer.post):
        n_units = sum(group.size for group in ffn.unit_groups())
        s, t = ffn.source.width, ffn.target.width
        sizes.append(s * n_units + n_units + n_units * t + t + s * t)
    return sizes
