"""Operations of a training step, counted by PyTorch: matrix products and attention."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

# PyTorch counts the attention of GPUs only. All pairs of tokens are counted, as it does there.
_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)
    ),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v)
    ),
}


def flop_counter() -> FlopCounterMode:
    """A context that counts: `get_total_flops()` afterwards."""
    return FlopCounterMode(display=False, custom_mapping=_ATTENTION)
