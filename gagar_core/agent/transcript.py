"""From the recorded text of a trajectory back to its last file: the same actions, carried out again.

Nothing is executed: tests only answer, they do not change a file. A policy that speaks in another text form
leaves a file of other size than the one recorded, which is how a reader can tell (``matches``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gagar_core.agent.actions import (
    Action,
    Clear,
    Delete,
    Next,
    Replace,
    RunTests,
    Submit,
    Top,
    Workspace,
    Write,
    syntax_nodes,
)

ACTIONS: dict[str, Action] = {
    "<run>": RunTests(), "<submit>": Submit(), "<clear>": Clear(), "<delete>": Delete(), "<top>": Top(),
    "<next>": Next(), "<replace>": Replace(),
}  # fmt: skip
"""How actions are written in the text of an agent's turn."""

_END_OF_LINE = re.compile("(\n|" + "|".join(map(re.escape, ACTIONS)) + ")")


def replayed(turns: Sequence[str], starter: str = "") -> Workspace:
    """The workspace after an agent's ``turns`` (texts in order) on a file that began as ``starter``."""
    workspace = Workspace(lines=starter.splitlines())
    for turn in turns:
        for piece in _END_OF_LINE.split(turn):
            if piece in ACTIONS:
                workspace.apply(ACTIONS[piece])
            elif piece.strip():
                workspace.apply(Write(piece))
    return workspace


def matches(workspace: Workspace, lines: int, nodes: int) -> bool:
    """Whether the file has as many lines and syntax nodes as were recorded."""
    return len(workspace.lines) == lines and syntax_nodes(workspace.source) == nodes
