"""Prompts of chains of thought: whole chains and the start of another to tokens of one block, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.mechanisms.checked_data import as_tensor
from icgd.mechanisms.loops.common.codec import STATE, LoopCodec
from icgd.mechanisms.loops.regression.shared_layers import check_gates
from icgd.mechanisms.loops.series.chain_layers import chain_codes
from icgd.mechanisms.loops.series.series_codec import held
from icgd.mechanisms.step_size import (
    check_not_overflown,
    refuse_underflow,
    warn_if_diverging,
)
from icgd.problems import MLPChain
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.stack.stack import Stack


class ChainCodec(LoopCodec):
    """s_1^0 .. s_1^L, .., s_N^0 .. s_N^L, s^0 .. s^l, ANS; several starts are several prompts."""

    def __init__(self, problem: MLPChain, lr: float, like: Sequence[Tensor], step: Stack) -> None:
        super().__init__(like, step)
        self.problem, self.lr = problem, lr

    def chains(self, X: Any) -> Tensor:
        """Checked chains, (..., N, L + 1, d)."""
        p, x = self.problem, as_tensor("chains", X, self.like)
        shape = (p.n_chains, p.n_layers + 1, p.n_features)
        if x.dim() not in (3, 4) or x.shape[-3:] != shape:
            raise InvalidParameter(
                "chains",
                tuple(x.shape),
                f"have shape {shape}, whole chains s^0 to s^L as compiled, or a batch of them",
            )
        return x

    def partial(self, query: Any, chains: Tensor) -> tuple[Tensor, Tensor]:
        """Chains and a checked start of another for each, (..., l + 1, d)."""
        p = self.problem
        if query is None:
            raise InvalidParameter(
                "query",
                None,
                "hold the start s^0 .. s^l of the chain to continue",
                remedy="Use program.run(chains, None, steps=..., query=partial).",
            )
        start = as_tensor("query", query, self.like)
        good = start.dim() in (2, 3) and start.shape[-1] == p.n_features and start.shape[-2] >= 1
        if good and chains.dim() == 3 and start.dim() == 3:
            chains = chains.expand(start.shape[0], *chains.shape)
        if not good or start.shape[:-2] != chains.shape[:-3]:
            raise InvalidParameter(
                "query",
                tuple(start.shape),
                f"have shape {(*chains.shape[:-3], 'l + 1', p.n_features)}: the states s^0 .. s^l of one chain",
            )
        if start.shape[-2] > p.n_layers:
            raise InvalidParameter(
                "query",
                start.shape[-2],
                f"have at most L = {p.n_layers} states",
                remedy="A chain of L + 1 states is complete: nothing follows s^L.",
            )
        return chains, start

    def prompt(self, X: Any, Y: Any, query: Any) -> tuple[Block, int, tuple[int, ...]]:
        """See LoopCodec."""
        if Y is not None:
            raise InvalidParameter(
                "Y",
                type(Y).__name__,
                "be None for an MLPChain",
                remedy="Chains hold their targets.",
            )
        p = self.problem
        chains, start = self.partial(query, self.chains(X))
        check_gates("A state", chains, start)
        phase = start.shape[-2] - 1
        refuse_underflow(chains[..., phase, :], f"states of phase {phase}")
        warn_if_diverging(self.lr, chains[..., phase, :], f"states of phase {phase}")
        states = torch.cat([chains.flatten(-3, -2), start], dim=-2)
        batch, n = tuple(start.shape[:-2]), states.shape[-2] + 1
        t = torch.arange(n, device=states.device)
        flags = {"is_state": t < n - 1, "is_last": t == n - 2, "is_answer": t == n - 1}
        one_hot = torch.eye(p.n_layers + 1).to(states)[t % (p.n_layers + 1)]
        one_hot[-1] = 0.0
        codes = chain_codes(p).codes[:n].to(states)
        values: dict[str, Tensor | float] = {
            "s": torch.nn.functional.pad(states, (0, 0, 0, 1)),
            "phase": one_hot.expand(*batch, *one_hot.shape),
            "code": codes.expand(*batch, *codes.shape),
            **{name: flag.to(states).expand(*batch, n) for name, flag in flags.items()},
        }
        return make_block(values), n, batch

    def decode(self, live: Mapping[Address, Block]) -> Tensor:
        """W_{l+1}: it stays in the span of the states s_i^l, where the residuals determine it."""
        block, p = live[STATE], self.problem
        h, r, after = (held(block, name) for name in ("h", "r", "next"))
        check_not_overflown(r, "The regression")
        per_chain = p.n_layers + 1
        whole = p.n_chains * per_chain
        phase = h.shape[-2] - whole - 2
        train = slice(phase, whole, per_chain)
        targets = torch.nn.functional.leaky_relu(after[..., train, :], 1 / p.slope)
        fitted = r[..., train, :] + targets
        return (torch.linalg.pinv(h[..., train, :]) @ fitted).mT

    def output_of(self, block: Block) -> Tensor:
        """See Codec."""
        return held(block, "out")

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Any]]:
        """See Codec: states and their successors, phase by phase."""
        x = self.chains(X)
        pairs = range(self.problem.n_layers)
        return [(x[..., phase, :], x[..., phase + 1, :], init) for phase in pairs]
