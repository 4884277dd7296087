"""Groups labelled by the label tests: what graders learn from and are judged on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gagar_core.errors import ArtifactError
from gagar_core.grading.quality import label_shares, quality
from gagar_core.protocols import Sandbox
from gagar_core.types import Group, Segment, Task, Trajectory


@dataclass(frozen=True, slots=True)
class LabelledGroup:
    """A group, and per trajectory the share of label tests passed; NaN where it was not ranked."""

    group: Group
    label_share: tuple[float, ...]
    origin: str
    """Where the policy that wrote it stood: ``sft`` or ``step <n>``."""
    taught: tuple[float, ...] = ()
    """Scores of a grader, which a student learns in the place of the labels; never written to disk."""

    @property
    def quality(self) -> tuple[float, ...]:
        """Quality of each trajectory, by the labels or by a teacher; NaN where it has none."""
        if self.taught:
            return self.taught
        pairs = zip(self.label_share, self.group.trajectories, strict=True)
        return tuple(quality(share, trajectory) for share, trajectory in pairs)

    @property
    def ranked(self) -> tuple[int, ...]:
        """Positions of the passing trajectories, all of which have a label."""
        return self.group.passing

    def right(self, index: int) -> bool:
        """Whether a passing trajectory passes every label test; if not, it passed by luck."""
        return self.label_share[index] == 1.0


def label_groups(groups: Sequence[Group], sandbox: Sandbox, origin: str) -> list[LabelledGroup]:
    """Those groups that tell good from better: two passing trajectories or more, all labelled."""
    judged = [group for group in groups if len(group.passing) >= 2]
    shares = label_shares(judged, sandbox)
    return [
        LabelledGroup(group, share, origin)
        for group, share in zip(judged, shares, strict=True)
        if all(math.isfinite(share[i]) for i in group.passing)
    ]


def to_lines(data: Iterable[LabelledGroup]) -> bytes:
    """One JSON object per line; tasks by id, everything else in full."""
    return "".join(json.dumps(_to_json(one), sort_keys=True) + "\n" for one in data).encode()


def read_lines(path: Path, tasks: Mapping[str, Task]) -> list[LabelledGroup]:
    """Read ``to_lines``' format back; raises ``ArtifactError`` naming the file or line at fault."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        msg = f"{path} cannot be read ({err}); remove its folder to build it again"
        raise ArtifactError(msg) from err
    for number, line in enumerate(lines, 1):
        try:
            found.append(_from_json(json.loads(line), tasks))
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            msg = f"{path}, line {number}: {type(err).__name__}: {err}; remove its folder to build it again"
            raise ArtifactError(msg) from err
    return found


def _to_json(one: LabelledGroup) -> dict[str, Any]:
    return {
        "id": one.group.id,
        "task": one.group.task.id,
        "origin": one.origin,
        "label_share": [None if math.isnan(share) else share for share in one.label_share],
        "trajectories": [asdict(trajectory) for trajectory in one.group.trajectories],
    }


def _from_json(data: Mapping[str, Any], tasks: Mapping[str, Task]) -> LabelledGroup:
    trajectories = tuple(_trajectory(entry) for entry in data["trajectories"])
    shares = tuple(math.nan if share is None else float(share) for share in data["label_share"])
    if len(shares) != len(trajectories):
        msg = f"{len(shares)} labels for {len(trajectories)} trajectories"
        raise ValueError(msg)
    group = Group(int(data["id"]), tasks[data["task"]], trajectories)
    return LabelledGroup(group, shares, str(data["origin"]))


def _trajectory(entry: Mapping[str, Any]) -> Trajectory:
    segments = tuple(
        Segment(
            role=part["role"],
            text=part["text"],
            token_ids=tuple(part["token_ids"]),
            logprobs=tuple(part["logprobs"]),
            mask=tuple(part["mask"]),
        )
        for part in entry["segments"]
    )
    plain = {key: value for key, value in entry.items() if key not in ("segments", "turn_shares")}
    return Trajectory(segments=segments, turn_shares=tuple(entry["turn_shares"]), **plain)
