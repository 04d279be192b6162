"""The error bookkeeping of [COT] Section 4, as printed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepErrors:
    """Accuracies of the four one-step updates and of the router."""

    x: float
    forward: float
    y: float
    backward: float
    routing: float = 0.0


def round_error(n_layers: int, errors: StepErrors) -> float:
    """The printed error of one round.

    Statement: [COT] Proposition 4.4

    eps_round = eps_x + (N-1) eps_forward + eps_y + (N-1) eps_backward + (2N+1) eps_routing

    Differs from the paper: no; but it adds step errors as if none were amplified by later steps, and
    counts 2N+1 routed calls where a round has 2N.

    >>> round_error(3, StepErrors(1.0, 1.0, 1.0, 1.0))
    6.0
    """
    n = n_layers
    return (
        errors.x
        + (n - 1) * errors.forward
        + errors.y
        + (n - 1) * errors.backward
        + (2 * n + 1) * errors.routing
    )


def paper_bound(n_rounds: int, eps_round: float) -> float:
    """The printed bound after L rounds, L * eps_round.

    Statement: [COT] Proposition 4.4

    Differs from the paper: no; it rests on a round being 1-Lipschitz, which is false (docs/errata.md),
    so it is reported and never used to decide anything.
    """
    return n_rounds * eps_round
