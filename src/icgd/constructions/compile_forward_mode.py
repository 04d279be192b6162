"""Compile (network, full-batch gradient descent) into N layers a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icgd.errors import InvalidParameter
from icgd.problems import Network
from icgd.program import Program


def compile_forward_mode(
    problem: Network, optimizer: object, dtype: torch.dtype, given: Mapping[str, Any]
) -> Program:
    """See constructions/forward_mode.py."""
    raise InvalidParameter("method", "forward_mode", "be 'cot' or 'stack'")
