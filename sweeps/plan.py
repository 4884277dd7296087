"""From a spec to the immutable table of runs and artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.artifacts import required
from experiments.compose import Composer
from experiments.identity import digest_of, run_id, variant_label
from experiments.schema import RunConfig, check_together, to_record
from gagar_core.errors import ConfigError, GagarError, gather
from sweeps.claims import resolve
from sweeps.factors import key_of
from sweeps.ledger import Ledger, create
from sweeps.spec import SweepSpec
from sweeps.words import merge, parse

MAX_RUNS = 100_000
"""A plan of more runs is a slip of the keyboard, and would take an hour to lay out."""


@dataclass(frozen=True)
class Variant:
    """A composed configuration at the first seed block."""

    words: tuple[str, ...]
    overrides: tuple[str, ...]
    config: RunConfig
    label: str
    seeds: tuple[int, ...]
    """Its seed blocks: those of the sweep, unless its own words name some."""


@dataclass(frozen=True)
class Plan:
    """What ``sweep.json`` and ``plan.jsonl`` will hold, and where."""

    folder: Path
    head: Mapping[str, Any]
    lines: Sequence[Mapping[str, Any]]

    def write(self) -> Ledger:
        """Write it into its folder, or find it there already."""
        return create(self.folder, self.head, self.lines)


def build_plan(spec: SweepSpec) -> Plan:
    """Compose every variant and lay out runs and artifacts; raises one ``ConfigError`` with all faults."""
    number = len(spec.variants) * len(spec.seeds)
    if number > MAX_RUNS:
        msg = f"{len(spec.variants)} variants x {len(spec.seeds)} seed blocks are more than {MAX_RUNS} runs"
        raise ConfigError(msg)
    variants, failed = _compose_all(spec)
    faults = _told_once(failed)
    seeds = list(dict.fromkeys([*spec.seeds, *(seed for variant in variants for seed in variant.seeds)]))
    planned = [(v, replace(v.config, seed=seed)) for seed in seeds for v in variants if seed in v.seeds]
    runs = [(_run_line(variant, config), config) for variant, config in planned]
    faults += _same_runs([(variant, line) for (variant, _), (line, _) in zip(planned, runs, strict=True)])
    baseline, hypotheses = _resolve(spec, variants, [chosen for chosen, _, _ in failed], faults)
    gather(faults, headline=f"invalid sweep {spec.name}".rstrip())
    lines = [*artifact_lines([config for _, config in runs]), *(line for line, _ in runs)]
    lines = [{"index": index, **line} for index, line in enumerate(lines)]
    head = {
        "question": spec.question,
        "baseline": baseline,
        "hypotheses": hypotheses,
        "seeds": seeds,
    }
    digest = digest_of([head, [line.get("run_id", line.get("digest")) for line in lines]])
    name = spec.name or digest
    return Plan(Path(spec.root) / name, {"name": name, "plan_digest": digest, **head}, lines)


_Failed = tuple[tuple[str, ...], tuple[str, ...], str]
"""A variant that cannot be: its own words, all its words, and why."""


def _compose_all(spec: SweepSpec) -> tuple[list[Variant], list[_Failed]]:
    variants, failed = [], []
    compose = Composer()
    for words in spec.variants:
        chosen = tuple(word for word in words if key_of(word) != "seed")
        overrides = tuple(merge(spec.base, chosen, spec.overrides))
        try:
            config = compose(overrides)
            check_together(config)
            seeds = _own_seeds(words) or spec.seeds
            variants.append(Variant(chosen, overrides, config, variant_label(config), seeds))
        except GagarError as err:
            failed.append((chosen, overrides, str(err)))
    return variants, failed


def _told_once(failed: Sequence[_Failed]) -> list[str]:
    """One fault for all variants that have it; what is valid is listed with the first that is not."""
    alike: dict[str, list[str]] = {}
    for _, overrides, why in failed:
        alike.setdefault(why, []).append(" ".join(overrides))
    faults: list[str] = []
    said: set[str] = set()
    for why, those in alike.items():
        first, *further = why.splitlines()
        lines = [first, *(line for line in further if line not in said)]
        said.update(further)
        more = f" (and {len(those) - 1} more variants)" if len(those) > 1 else ""
        faults.append(f"{those[0]}{more}: " + "\n".join(lines))
    return faults


def _own_seeds(words: Sequence[str]) -> tuple[int, ...]:
    values = [value for word in parse(words) if word.key == "seed" for value in word.values]
    if not all(value.isdecimal() for value in values):
        msg = f"seed blocks are integers >= 0; got seed={','.join(values)}"
        raise ConfigError(msg)
    return tuple(int(value) for value in values)


def _run_line(variant: Variant, config: RunConfig) -> dict[str, Any]:
    return {
        "kind": "run",
        "run_id": run_id(config),
        "variant": variant.label,
        "seed": config.seed,
        "overrides": [*variant.overrides, f"seed={config.seed}"],
        "needs": [spec.digest for spec in required(config)],
        "config": {key: value for key, value in to_record(config).items() if key not in ("root", "name")},
    }


def artifact_lines(configs: Sequence[RunConfig]) -> list[dict[str, Any]]:
    """Every artifact once, in order of first need: that of the first seed block is built first."""
    specs = {spec.digest: spec for config in configs for spec in required(config)}
    return [
        {
            "kind": "artifact",
            "artifact": spec.kind,
            "digest": spec.digest,
            "seed": spec.seed,
            "variant": "",
            "overrides": [],
            "config": {k: v for k, v in to_record(spec.config).items() if k not in ("root", "name")},
        }
        for spec in specs.values()
    ]


def _same_runs(runs: Sequence[tuple[Variant, Mapping[str, Any]]]) -> list[str]:
    first: dict[str, Variant] = {}
    faults = []
    for variant, line in runs:
        other = first.setdefault(line["run_id"], variant)
        if other is not variant:
            same = f"{_say(variant)!r} and {_say(other)!r} are the same run ({variant.label})"
            faults.append(f"two variants with one identity: {same}; drop one")
    return list(dict.fromkeys(faults))


def _say(variant: Variant) -> str:
    return " ".join(variant.words) or "(base)"


def _resolve(
    spec: SweepSpec, variants: Sequence[Variant], failed: Sequence[Sequence[str]], faults: list[str]
) -> tuple[str, list[dict[str, Any]]]:
    """Labels for the baseline and for the variants that hypotheses speak of.

    Of variants that could not be composed (``failed``, by their words) the label is not known.
    """

    def label(what: str, reference: str) -> str:
        for variant in variants:
            if reference == variant.label or set(reference.split()) == set(variant.words):
                return variant.label
        said = reference.split()
        if failed and (not all("=" in word for word in said) or set(said) in map(set, failed)):
            return reference
        known = ", ".join(v.label for v in variants) or "none that is valid"
        faults.append(f"{what} {reference!r} is not in the plan; variants: {known}")
        return ""

    baseline = label("baseline", spec.baseline) if spec.baseline else ""
    hypotheses = resolve(spec.hypotheses, baseline, label, faults)
    return baseline, hypotheses
