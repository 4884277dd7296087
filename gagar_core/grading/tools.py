"""Tools of a grader that acts: what it can do to the candidates of one group, and what it then knows.

    box = ToolBox(group, sandbox, rng)            # the passing trajectories, side by side
    box.act(Fuzz(candidate=2, inputs=12))         # -> Observation: numbers and a line of evidence

An action is a small dataclass; ``TOOLS`` names them all. Programs run only in the sandbox, those of all
candidates in one batch, identical ones once. What is observed of a program depends on the programs of the
group, not on their order, and is the same for identical texts; what a program or a trajectory says about
itself is data and is quoted, never followed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from gagar_core.errors import InputError, check_range, gather
from gagar_core.grading.fuzzing import MAX_INPUTS, FuzzInputs, Standing, answer_of, settled, standings
from gagar_core.grading.inspection import diff_numbers, measure_numbers, quoted, read_numbers
from gagar_core.protocols import Sandbox
from gagar_core.tasks.checks import num_tests, num_tests_passed, passes
from gagar_core.tasks.execution import program_of, run_tests
from gagar_core.types import MAIN_FILE, CallResult, Group, Trajectory

_OUTSIDE = re.compile(r"__|\b(?:import|open|exec|eval|id|hash|object)\b")
"""Words without which a program can only compute: the same answer, whenever it is asked."""
_FRESH = "\n# run again"
"""Makes a program another one to the sandbox's memory, so that it is really run again."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one action has shown."""

    tool: str
    numbers: dict[int, dict[str, float]]
    """Candidate -> what is now known of it, by name."""
    evidence: str
    """One line for people; it does not name the candidates."""


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """Generated inputs, and by distinct program what it answered and how it stands among the others."""

    inputs: list[tuple[Any, ...]]
    results: dict[str, list[CallResult]]
    standings: dict[str, Standing]


class Tool(Protocol):
    """An action on the shared workspace: its fields are the arguments."""

    name: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]]
    """Names of what its observations hold of every candidate it is about."""

    @property
    def about(self) -> tuple[int, ...]:
        """Positions of the candidates that are looked at."""
        ...

    def use(self, box: ToolBox) -> Observation:
        """Carry the action out."""
        ...


class ToolBox:
    """The shared workspace of one group: its candidates, their programs, and what was done so far."""

    def __init__(
        self,
        group: Group,
        sandbox: Sandbox,
        rng: np.random.Generator,
        *,
        max_actions: int = 1000,
        allowed: Sequence[str] | None = None,
    ) -> None:
        """Lay the passing trajectories out.

        ``rng`` belongs to this box; ``allowed`` names the tools that may be used besides ``stop``, all by
        default. Raises ``InputError`` for names that are not in ``TOOLS``.
        """
        self.group = group
        self.candidates = group.passing
        self.max_actions = max_actions
        self.allowed = frozenset(TOOLS if allowed is None else (*allowed, "stop"))
        self.observations: list[Observation] = []
        self.stopped = False
        self.calls = 0
        """Calls of programs asked for so far."""
        self.tokens = 0
        """Tokens of programs read so far."""
        self._sandbox = sandbox
        self._inputs = FuzzInputs(group.task.public, rng)
        self._copies = Counter(self.source(candidate) for candidate in self.candidates)
        self._results: dict[str, list[CallResult]] = {source: [] for source in self._copies}
        self._fuzzed: dict[int, Fuzzed] = {}
        self._public: dict[str, tuple[list[CallResult], list[CallResult]]] = {}
        faults = [f"{name!r} is not a tool" for name in sorted(self.allowed - TOOLS.keys())]
        gather(faults, headline=f"the tools are {', '.join(TOOLS)}", error=InputError)

    def source(self, candidate: int) -> str:
        """The program of a candidate; other files that it left behind are not run, nor read."""
        return self.group.trajectories[candidate].files.get(MAIN_FILE, "")

    def trajectory(self, candidate: int) -> Trajectory:
        """How a candidate came about."""
        return self.group.trajectories[candidate]

    @property
    def actions_left(self) -> int:
        """Actions that the budget still allows; 0 after ``stop``."""
        return 0 if self.stopped else self.max_actions - len(self.observations)

    def refusal(self, action: Tool) -> str:
        """Why an action cannot be carried out now, "" if it can."""
        if action.name not in self.allowed:
            return f"{action.name} is not among the tools of this grader: {', '.join(sorted(self.allowed))}"
        if not self.actions_left:
            return "the grader has stopped" if self.stopped else f"no action is left of {self.max_actions}"
        strangers = [str(i) for i in action.about if i not in self.candidates]
        return f"{', '.join(strangers)} is no passing trajectory: {self.candidates}" if strangers else ""

    def act(self, action: Tool) -> Observation:
        """Carry an action out and remember what it showed. Raises ``InputError`` if it is refused."""
        if reason := self.refusal(action):
            raise InputError(reason)
        observation = action.use(self)
        self.observations.append(observation)
        self.stopped = action.name == "stop"
        return observation

    def fuzz(self, count: int) -> Fuzzed:
        """What the first ``count`` inputs show of every distinct program; runs only what is new."""
        if count not in self._fuzzed:
            answer_together([self], self._sandbox, count)
            inputs = self._inputs.first(count)
            results = {source: found[: len(inputs)] for source, found in self._results.items()}
            answers = [[answer_of(result) for result in found] for found in results.values()]
            ranked = standings(answers, [self._copies[source] for source in results])
            self._fuzzed[count] = Fuzzed(inputs, results, dict(zip(results, ranked, strict=True)))
        return self._fuzzed[count]

    def missing(self, count: int) -> dict[str, list[tuple[Any, ...]]]:
        """By distinct program those of the first ``count`` inputs that it was not yet asked."""
        inputs = self._inputs.first(count)
        return {s: inputs[len(found) :] for s, found in self._results.items() if len(found) < len(inputs)}

    def take(self, source: str, results: Sequence[CallResult]) -> None:
        """Add what a program answered to the inputs that it was still missing."""
        self.calls += len(results)
        self._results[source] = settled([*self._results[source], *results])

    def run_public(self, source: str) -> tuple[list[CallResult], list[CallResult]]:
        """Results of the public tests as they stand, and of a fresh copy asked in the reverse order.

        Programs that name nothing outside themselves cannot change and are not run again.
        """
        if not self._public:
            task, sources = self.group.task, list(self._copies)
            backwards = replace(task, public=task.public[::-1])
            doubtful = [s for s in sources if _OUTSIDE.search(s)]
            attempts = [({MAIN_FILE: s}, task) for s in sources]
            attempts += [({MAIN_FILE: s + _FRESH}, backwards) for s in doubtful]
            results = run_tests(self._sandbox, attempts, "public")
            self.calls += sum(map(len, results))
            cases = len(task.public)
            again = dict(zip(doubtful, results[len(sources) :], strict=True))
            for s, first in zip(sources, results, strict=False):
                self._public[s] = (
                    first,
                    [*again[s][:cases][::-1], *again[s][cases:]] if s in again else first,
                )
        return self._public[source]


def answer_together(boxes: Sequence[ToolBox], sandbox: Sandbox, count: int) -> None:
    """Let every program of several groups answer its group's first ``count`` inputs, in one batch."""
    asked = [(box, source, inputs) for box in boxes for source, inputs in box.missing(count).items()]
    requests = [(program_of({MAIN_FILE: source}, box.group.task), inputs) for box, source, inputs in asked]
    for (box, source, _), results in zip(asked, sandbox.calls_batch(requests), strict=True):
        box.take(source, results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _One:
    """An action on one candidate."""

    candidate: int

    @property
    def about(self) -> tuple[int, ...]:
        """The candidate."""
        return (self.candidate,)


class Read(_One):
    """Read a program: its tokens are counted."""

    name: ClassVar[str] = "read"
    numbers: ClassVar[tuple[str, ...]] = ("tokens", "lines", "words", "longest_line", "comments")

    def use(self, box: ToolBox) -> Observation:
        """Carry the action out."""
        source = box.source(self.candidate)
        found = read_numbers(source)
        box.tokens += int(found["tokens"])
        text = f"{found['lines']:g} lines, {found['tokens']:g} tokens: {quoted(source)}"
        return Observation(self.name, {self.candidate: found}, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Compare the texts of two programs."""

    name: ClassVar[str] = "diff"
    numbers: ClassVar[tuple[str, ...]] = ("changed_lines", "similarity")
    first: int
    second: int

    @property
    def about(self) -> tuple[int, ...]:
        """Both candidates."""
        return (self.first, self.second)

    def use(self, box: ToolBox) -> Observation:
        """Carry the action out."""
        found = diff_numbers(box.source(self.first), box.source(self.second))
        text = f"{found['changed_lines']:g} lines differ, similarity {found['similarity']:.2f}"
        return Observation(self.name, {i: dict(found) for i in self.about}, text)


class Measure(_One):
    """Measure a program: size, shape, special cases, distance from the starter file."""

    name: ClassVar[str] = "measure"
    numbers: ClassVar[tuple[str, ...]] = (
        *("parses", "lines", "nodes", "functions", "branches", "loops", "constants"),
        *("special_cases", "hard_coded", "changed_lines"),
    )

    def use(self, box: ToolBox) -> Observation:
        """Carry the action out."""
        task = box.group.task
        found = measure_numbers(box.source(self.candidate), task.files, task.public)
        text = f"{found['nodes']:g} syntax nodes, {found['lines']:g} lines"
        if found["special_cases"]:
            text += f", {found['special_cases']:g} special cases ({found['hard_coded']:g} are public tests)"
        return Observation(self.name, {self.candidate: found}, text)


class RunPublic(_One):
    """Run the public tests as they stand, and once more on a fresh copy in reverse order.

    Candidates have passed them; a program that keeps state, or returns True for 1, shows here.
    """

    name: ClassVar[str] = "run_public"
    numbers: ClassVar[tuple[str, ...]] = ("passed_share", "unstable_share", "odd_types")

    def use(self, box: ToolBox) -> Observation:
        """Carry the action out."""
        task = box.group.task
        first, again = box.run_public(box.source(self.candidate))
        tests = max(num_tests(task, "public"), 1)
        changed = sum(answer_of(a) != answer_of(b) for a, b in zip(first, again, strict=True))
        good = [(c, r) for c, r in zip(task.public, first, strict=False) if passes(c, r)]
        odd = sum(type(result.value) is not type(case.expected) for case, result in good)
        passed = num_tests_passed(task, "public", first) if first else 0
        found = {"passed_share": passed / tests, "unstable_share": changed / tests, "odd_types": odd / tests}
        text = f"{passed} of {tests} public tests pass, {changed} change when run again"
        if odd:
            text += f", {odd} give another type"
        return Observation(self.name, {self.candidate: found}, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzz(_One):
    """Run a program and all others on generated inputs; what most answer counts as right.

    Needs public tests with arguments to see what inputs look like: without any, no input is made.
    """

    name: ClassVar[str] = "fuzz"
    numbers: ClassVar[tuple[str, ...]] = (
        *("inputs", "minority_share", "agreement", "distinct_agreement", "fault_share"),
    )
    inputs: int = 12

    def __post_init__(self) -> None:
        gather(check_range("inputs", self.inputs, 1, MAX_INPUTS), headline="invalid fuzz", error=InputError)

    def use(self, box: ToolBox) -> Observation:
        """Carry the action out."""
        fuzzed, source = box.fuzz(self.inputs), box.source(self.candidate)
        standing = fuzzed.standings[source]
        share = max(standing.inputs, 1)
        numbers = {
            "inputs": float(standing.inputs),
            "minority_share": len(standing.minority) / share,
            "agreement": standing.agreement,
            "distinct_agreement": standing.distinct_agreement,
            "fault_share": standing.faults / share,
        }
        text = f"in the minority on {len(standing.minority)} of {standing.inputs} generated inputs"
        if standing.minority:
            at = standing.minority[0]
            text += f", as on {quoted(fuzzed.inputs[at])}: {_shown(fuzzed.results[source][at])}"
        return Observation(self.name, {self.candidate: numbers}, text)


class Trace(_One):
    """Look at how a program came about."""

    name: ClassVar[str] = "trace"
    numbers: ClassVar[tuple[str, ...]] = (
        *("turns", "test_runs", "redundant_test_runs", "edits", "tool_errors", "failed_reports"),
        *("error_reports", "gen_tokens", "obs_tokens", "truncated"),
    )

    def use(self, box: ToolBox) -> Observation:
        """Carry the action out."""
        trajectory = box.trajectory(self.candidate)
        told = [segment.text for segment in trajectory.segments if segment.role == "env"]
        found = {name: float(getattr(trajectory, name)) for name in self.numbers if hasattr(trajectory, name)}
        found["failed_reports"] = float(sum(text.startswith("FAIL") for text in told))
        found["error_reports"] = float(sum(text.startswith("ERR") for text in told))
        text = (
            f"{trajectory.turns} turns, {trajectory.test_runs} test runs"
            f" ({trajectory.redundant_test_runs} redundant), {trajectory.edits} edits,"
            f" {trajectory.gen_tokens} tokens, ended by {trajectory.stop_reason}"
        )
        return Observation(self.name, {self.candidate: found}, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Be content with what is known."""

    name: ClassVar[str] = "stop"
    numbers: ClassVar[tuple[str, ...]] = ()

    @property
    def about(self) -> tuple[int, ...]:
        """No candidate."""
        return ()

    def use(self, box: ToolBox) -> Observation:
        """Carry the action out."""
        return Observation(self.name, {}, "stopped")


def _shown(result: CallResult) -> str:
    return f"gave {quoted(result.value)}" if result.status == "ok" else result.status


TOOLS: dict[str, type[Any]] = {
    tool.name: tool for tool in (Read, Diff, Measure, RunPublic, Fuzz, Trace, Stop)
}
"""Name -> action; the arguments are its fields."""
