"""The nouns of the workbench. Frozen dataclasses without behaviour; standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

VERDICTS = ("pass", "wrong", "error", "timeout", "memory", "output", "violation", "infra")
"""How a program fared against tests. ``infra`` is ours, not the program's: it drops the sample."""

STOP_REASONS = ("submit", "token_budget", "turn_limit")
"""Why a trajectory ended. Only ``submit`` was the agent's own decision; the others are truncations."""

TEST_KINDS = ("public", "reward", "label", "audit")
"""public: the agent may run them. reward: decide pass. label: judge graders. audit: measure only."""

TASK_KINDS = ("code", "answer", "repository")
"""code: a program is written or repaired. answer: the file's text is the answer. repository: a change of a
repository, which needs that repository's own environment to be judged."""

GRADED_KINDS = ("code",)
"""Kinds of tasks whose trajectories a grader ranks; groups of other kinds keep their base advantages."""

MAIN_FILE = "f.py"
"""The file that a code task's program stands in, and the one that an answer is written to."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test: call the entry point with ``args``; the returned value must equal ``expected``.

    Floats may differ from ``expected`` by ``atol``.
    """

    args: tuple[Any, ...]
    expected: Any
    atol: float = 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """A programming task with four kinds of tests (see ``TEST_KINDS``)."""

    id: str
    kind: str
    statement: str
    spec: tuple[str, ...]
    """Words of the statement that the embedded policy is conditioned on."""
    entry_point: str
    public: tuple[Case, ...]
    reward: tuple[Case, ...]
    label: tuple[Case, ...]
    audit: tuple[Case, ...]
    difficulty: float = 0.0
    """Prior difficulty in [0, 1]; only used to stratify reports and demonstrations."""
    tags: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """Starter files by name; without any the agent begins with nothing."""
    test_programs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of test -> test programs with assertions, which count after the cases of that kind."""
    limits: dict[str, float] = field(default_factory=dict)
    """Sandbox settings that the tests of this task need: fuel, cpu_s, memory_mb."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a trajectory written by one side.

    ``role`` is ``agent`` or ``env``. ``logprobs`` (nats, sampling policy) has one entry per token of
    an agent segment and is empty for env segments; ``mask`` is 1 where a token is trained on.
    """

    role: str
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()
    mask: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One rollout: what was said, the final files, and how it went.

    Counts: ``gen_tokens`` sampled by the policy, ``obs_tokens`` written by the environment, ``turns`` agent
    segments, ``test_runs`` runs of the public tests, ``redundant_test_runs`` those made while the last
    verdict was OK and nothing had changed since, ``edits`` clear / delete / insert-at-top / replace
    actions.
    """

    task_id: str
    segments: tuple[Segment, ...]
    files: dict[str, str]
    verdict: str
    stop_reason: str
    gen_tokens: int
    obs_tokens: int
    turns: int
    tool_calls: int
    tool_errors: int
    test_runs: int
    redundant_test_runs: int
    edits: int
    program_lines: int
    program_nodes: int
    """Size of the final program: nodes of its syntax tree, 0 if it does not parse."""
    turn_shares: tuple[float, ...] = ()
    """Share of the public tests known to pass after each agent turn; the last one is that of the end."""

    @property
    def passed(self) -> bool:
        """Whether the reward tests pass on the final files."""
        return self.verdict == "pass"

    @property
    def valid(self) -> bool:
        """False for an infrastructure failure: such a row is in no statistic and no loss."""
        return self.verdict != "infra"

    @property
    def truncated(self) -> bool:
        """Whether a limit, not the agent, ended the trajectory."""
        return self.stop_reason != "submit"


@dataclass(frozen=True, slots=True)
class Group:
    """The trajectories of one task in one step; outcomes are counted once, when the group is made."""

    id: int
    task: Task
    trajectories: tuple[Trajectory, ...]
    num_valid: int = field(init=False, repr=False, compare=False)
    """Trajectories without an infrastructure failure."""
    num_passing: int = field(init=False, repr=False, compare=False)
    """Those of them that pass the reward tests."""

    def __post_init__(self) -> None:
        verdicts = [trajectory.verdict for trajectory in self.trajectories]
        object.__setattr__(self, "num_valid", len(verdicts) - verdicts.count("infra"))
        object.__setattr__(self, "num_passing", verdicts.count("pass"))

    @property
    def passing(self) -> tuple[int, ...]:
        """Positions of valid passing trajectories."""
        return tuple(i for i, t in enumerate(self.trajectories) if t.valid and t.passed)

    @property
    def mixed(self) -> bool:
        """Whether valid trajectories both pass and fail."""
        return 0 < self.num_passing < self.num_valid


@dataclass(frozen=True, slots=True)
class Ranking:
    """A grader's judgement of one group; every array is parallel to ``Group.trajectories``.

    ``ranks`` 1 = best, ties share, NaN for trajectories that are not ranked (failing or invalid ones).
    ``abstain`` is "" or the reason why the base advantages must be used instead.
    """

    ranks: tuple[float, ...]
    scores: tuple[float, ...] = ()
    tiers: tuple[float, ...] = ()
    abstain: str = ""
    evidence: tuple[str, ...] = ()
    cpu_s: float = 0.0
    actions: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call into a sandboxed program gave.

    ``status`` is ``ok`` or a verdict of ``VERDICTS`` other than pass and wrong; ``value`` is meant only for
    ``ok`` and is built from exact builtin types; ``message`` is one short line for the agent.
    """

    status: str
    value: Any = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """Source text and the name to call. ``closed_vocabulary``: an allow-list has proved it harmless."""

    source: str
    entry_point: str
    closed_vocabulary: bool = False
