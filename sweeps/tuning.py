"""What a tuning searches: a space over the settings of one axis, and the head of its folder.

A tuning is a sweep whose runs are not planned but asked for: ``sweep.json`` holds the space, ``plan.jsonl``
only the artifacts, ``optuna.journal`` the study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.compose import compose
from experiments.identity import digest_of
from experiments.schema import CHOICES, RunConfig, from_record, kind_of, to_record
from gagar_core.choices import choice_class
from gagar_core.errors import ConfigError, gather
from sweeps.ledger import Ledger, create
from sweeps.plan import artifact_lines
from sweeps.spec import read_seeds
from sweeps.words import Word, merge, parse

DEFAULT_TRIALS = 20
DEFAULT_SEEDS = (0, 1, 2)
OBJECTIVE = "held_out_pass"
"""Key of ``result.json``'s ``last`` that is maximised: pass rate on held-out tasks, never the audit tests."""


@dataclass(frozen=True)
class Target:
    """Something that can be tuned: an axis, and the overrides that make it matter."""

    axis: str
    base: tuple[str, ...]
    question: str


TARGETS = {
    "quality_weight": Target(
        "weighting",
        ("algorithm=gagar",),
        "Which weighting scheme, with which settings, gives the highest held-out pass rate?",
    )
}


@dataclass(frozen=True)
class Tuning:
    """A checked request: where, over what, how often."""

    folder: Path
    head: Mapping[str, Any]
    lines: Sequence[Mapping[str, Any]]
    trials: int

    def write(self) -> Ledger:
        """Write it into its folder, or find the same one there."""
        return create(self.folder, self.head, self.lines)


def build_tuning(what: str, words: Sequence[str]) -> Tuning:
    """Compose the base, gather the space from the classes' ``SEARCH``, and lay out the artifacts."""
    target = choice_of(what)
    own, rest = _split(parse(words))
    schemes = [value for word in rest if word.key == target.axis for value in word.values]
    fixed = [word for word in rest if word.key != target.axis]
    swept = [f"{w.text}: only {target.axis} is searched; give one value" for w in fixed if len(w.values) > 1]
    gather(swept, headline=f"cannot tune {what}")
    overrides = merge(target.base, [word.text for word in fixed])
    space = space_of(target.axis, schemes)
    config = compose([*overrides, f"{target.axis}={next(iter(space))}"])
    if kind_of("redistribution", config.redistribution) == "none":
        msg = f"{what} has no effect with redistribution=none: leave algorithm=gagar, or choose another"
        raise ConfigError(msg)
    record = {key: value for key, value in to_record(config).items() if key not in ("root", "name")}
    head = {
        "kind": "tuning",
        "what": what,
        "axis": target.axis,
        "space": space,
        "base": list(overrides),
        "config": record,
        "question": target.question,
        "baseline": "",
        "hypotheses": [],
        "seeds": list(own.seeds),
    }
    digest = digest_of(head)
    lines = artifact_lines([replace(config, seed=seed) for seed in own.seeds])
    numbered = [{"index": index, **line} for index, line in enumerate(lines)]
    name = own.name or f"tune_{what}"
    return Tuning(Path(own.root) / name, {"name": name, "plan_digest": digest, **head}, numbered, own.trials)


def choice_of(what: str) -> Target:
    """The target called ``what``."""
    if what not in TARGETS:
        msg = f"cannot tune {what!r}; choose one of {', '.join(TARGETS)}"
        raise ConfigError(msg)
    return TARGETS[what]


@dataclass(frozen=True)
class _Own:
    trials: int = DEFAULT_TRIALS
    seeds: tuple[int, ...] = DEFAULT_SEEDS
    root: str = "runs"
    name: str = ""


def _split(words: Sequence[Word]) -> tuple[_Own, list[Word]]:
    own, rest = _Own(), []
    for word in words:
        if word.key == "trials":
            if type(word.value) is not int or word.value < 1:
                msg = f"trials must be an integer >= 1, the total of the study; got {word.text}"
                raise ConfigError(msg)
            own = replace(own, trials=word.value)
        elif word.key == "seed":
            own = replace(own, seeds=read_seeds([int(v) if v.isdigit() else v for v in word.values]))
        elif word.key == "root":
            own = replace(own, root=str(word.value))
        elif word.key == "name":
            own = replace(own, name=str(word.value))
        else:
            rest.append(word)
    return own, rest


def space_of(axis: str, names: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Choice -> field -> ``{"low", "high", "log", "int"}`` or ``{"choices"}``, from the classes' ``SEARCH``.

    Without ``names``: every choice that has something to search and reads ranks alone (every grader ranks).
    """
    chosen = {name: choice_class(axis, name, CHOICES) for name in names} or {
        name: cls
        for name, cls in CHOICES[axis].items()
        if getattr(cls, "SEARCH", None) and tuple(getattr(cls, "reads", ("ranks",))) == ("ranks",)
    }
    if not chosen:
        msg = f"no choice of {axis} declares SEARCH; name some: {axis}={','.join(sorted(CHOICES[axis]))}"
        raise ConfigError(msg)
    return {
        name: {f: _range(r) for f, r in getattr(cls, "SEARCH", {}).items()} for name, cls in chosen.items()
    }


def _range(declared: Any) -> dict[str, Any]:
    if isinstance(declared, list):
        return {"choices": declared}
    low, high = declared[:2]
    whole = isinstance(low, int) and isinstance(high, int)
    return {"low": low, "high": high, "log": len(declared) > 2 and bool(declared[2]), "int": whole}


def trial_config(ledger: Ledger, choice: str, settings: Mapping[str, Any], seed: int) -> RunConfig:
    """The configuration of one run of a trial."""
    head = ledger.head
    record = {**head["config"], head["axis"]: {"kind": choice, **settings}}
    return from_record({**record, "seed": seed, "root": str(ledger.root), "name": ledger.name})


def overrides_of(axis: str, choice: str, settings: Mapping[str, Any]) -> list[str]:
    """Override words that choose what a trial chose."""
    return [f"{axis}={choice}", *(f"{axis}.{name}={value}" for name, value in settings.items())]
