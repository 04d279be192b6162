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
    return sum(_feed_forward_sizes(layer)) + sum(_attention_sizes(layer, n_columns))


def dense_flops_per_step(layer: Layer, n_columns: int) -> int:
    """Products of one call with literal matrices: every column, every head, every grid token."""
    pre, post, attention = layer.pre, layer.post, layer.attention
    total = 0
    for ffn in (pre, post):
        n_units = sum(group.size for group in ffn.unit_groups())
        s, t = ffn.source.width, ffn.target.width
        total += n_columns * (s * n_units + n_units * t + s * t)
    token, grid, p = attention.layout.width, attention.grid_layout.width, attention.n_grid
    total += p * n_columns * token + p * token * grid
    banks = attention.head_banks()
    n_heads = sum(bank.n_heads for bank in banks)
    d_value = max(bank.d_value * len(bank.paths) for bank in banks)
    per_head = (
        n_columns * token * 2 + p * grid * 2 + p * grid * d_value
        + n_columns * p * 2 + n_columns * p * d_value + n_columns * d_value * token
    )  # fmt: skip
    return 2 * (total + n_heads * per_head)


def _feed_forward_sizes(layer: Layer) -> list[int]:
    sizes = []
    for ffn in (layer.pre, layer.post):
        n_units = sum(group.size for group in ffn.unit_groups())
        s, t = ffn.source.width, ffn.target.width
        sizes.append(s * n_units + n_units + n_units * t + t + s * t)
    return sizes


def _attention_sizes(layer: Layer, n_columns: int) -> list[int]:
    attention = layer.attention
    token, grid, p = attention.layout.width, attention.grid_layout.width, attention.n_grid
    banks = attention.head_banks()
    n_heads = sum(bank.n_heads for bank in banks)
    d_value = max(bank.d_value * len(bank.paths) for bank in banks)
    return [
        p * n_columns,
        token * grid,
        p * grid,
        n_heads * (token * 2 + 2 + grid * 2 + grid * d_value + d_value * token),
    ]
