"""Credit per turn: how many more public tests pass after a turn than were known to pass before it."""

from __future__ import annotations

from gagar_core.types import Trajectory


def turn_credits(trajectory: Trajectory) -> list[float]:
    """One credit per agent turn, in shares of the public tests; their sum is the share at the end."""
    return [
        after - before
        for before, after in zip((0.0, *trajectory.turn_shares), trajectory.turn_shares, strict=False)
    ]
