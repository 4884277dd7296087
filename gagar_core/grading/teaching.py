"""Distillation: a teacher's rankings in the place of labels, so that a student never sees a label test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gagar_core.grading.grade import Streams, grade_groups
from gagar_core.grading.labelled import LabelledGroup
from gagar_core.protocols import Grader, Sandbox


def taught_by(
    teacher: Grader, data: Sequence[LabelledGroup], sandbox: Sandbox, streams: Streams
) -> list[LabelledGroup]:
    """The groups with a teacher's ranks in the place of the labels, without those that it abstains on."""
    rankings = grade_groups([one.group for one in data], teacher, sandbox, streams=streams)
    sandbox.end_step()
    return [
        replace(one, label_share=(), taught=tuple(-rank for rank in ranking.ranks))
        for one, ranking in zip(data, rankings, strict=True)
        if not ranking.abstain
    ]
