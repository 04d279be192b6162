"""What a gadget promises: on which domain, with which error, at which weight norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Certificate:
    """A promise |computed - intended| <= sup_error for inputs of size <= domain.

    lipschitz    bound on how much the intended map stretches its input (sup norm)
    weight_norm  largest absolute weight the gadget uses
    n_tokens     grid tokens it attends over (0 if none)
    rigorous     False if a constant in it was estimated and not proven

    >>> half = Certificate("half", domain=2.0, sup_error=0.1, lipschitz=0.5, weight_norm=1.0)
    >>> half.scaled(-3.0).lipschitz
    1.5
    """

    name: str
    domain: float
    sup_error: float
    lipschitz: float
    weight_norm: float
    n_tokens: int = 0
    rigorous: bool = True

    def __post_init__(self) -> None:
        if math.isnan(self.sup_error) or self.sup_error < 0:
            raise ValueError(f"A certificate's error must be >= 0. Got {self.sup_error}.")

    def scaled(self, factor: float) -> Certificate:
        """The certificate of `factor` times the gadget's output."""
        return replace(
            self,
            sup_error=abs(factor) * self.sup_error,
            lipschitz=abs(factor) * self.lipschitz,
        )


def worst_of(certificates: Sequence[Certificate]) -> Certificate:
    """The one with the largest error; rigorous only if all of them are.

    >>> a = Certificate("a", 1.0, 0.1, 1.0, 1.0)
    >>> worst_of([a, replace(a, name="b", sup_error=0.0, rigorous=False)]).rigorous
    False
    """
    worst = max(certificates, key=lambda c: c.sup_error)
    return replace(worst, rigorous=all(c.rigorous for c in certificates))
