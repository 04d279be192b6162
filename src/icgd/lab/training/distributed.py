"""Several processes as one: started by torchrun, each takes its share of the same global batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from icgd.errors import InvalidParameter
from icgd.lab.tasks.batch import Batch


@dataclass(frozen=True)
class Group:
    """This process among the others."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def leads(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def device(self, name: str) -> str:
        """This process's device: with several processes each has a GPU of its own."""
        return f"cuda:{self.local_rank}" if name == "cuda" and self.size > 1 else name

    def share(self, batch: Batch) -> Batch:
        """The rows of the global batch that are this process's."""
        if self.size == 1:
            return batch
        rows = slice(self.rank, None, self.size)
        return Batch(batch.xs[rows], batch.ys[rows], batch.kind, batch.counted)

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients averaged over all processes."""
        return model if self.size == 1 else nn.parallel.DistributedDataParallel(model)

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """The mean of a number over all processes."""
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value)
            value /= self.size
        return value

    def barrier(self) -> None:
        """Wait for all."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def process_group(batch_size: int, device: str) -> Iterator[Group]:
    """The group torchrun started, or a group of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Group()
        return
    if batch_size % size:
        raise InvalidParameter(
            "training.batch_size", batch_size, f"be a multiple of the {size} processes"
        )
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield Group(dist.get_rank(), size, int(os.environ.get("LOCAL_RANK", "0")))
    finally:
        dist.destroy_process_group()
