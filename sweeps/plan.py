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
    variants = _compose_all(spec)
    seeds = list(dict.fromkeys([*spec.seeds, *(seed for variant in variants for seed in variant.seeds)]))
    planned = [(v, replace(v.config, seed=seed)) for seed in seeds for v in variants if seed in v.seeds]
    runs = [(_run_line(variant, config), config) for variant, config in planned]
    _check_identities([(variant, line) for (variant, _), (line, _) in zip(planned, runs, strict=True)])
    baseline, hypotheses = _resolve(spec, variants)
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


def _compose_all(spec: SweepSpec) -> list[Variant]:
    variants, faults = [], []
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
            faults.append(f"{' '.join(overrides)}: {err}")
    gather(dict.fromkeys(faults), headline=f"invalid sweep {spec.name}".rstrip())
    return variants


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


def _check_identities(runs: Sequence[tuple[Variant, Mapping[str, Any]]]) -> None:
    first: dict[str, Variant] = {}
    faults = []
    for variant, line in runs:
        other = first.setdefault(line["run_id"], variant)
        if other is not variant:
            faults.append(f"{_say(variant)!r} and {_say(other)!r} are the same run ({variant.label})")
    gather(dict.fromkeys(faults), headline="two variants with one identity; drop one of each pair")


def _say(variant: Variant) -> str:
    return " ".join(variant.words) or "(base)"


def _resolve(spec: SweepSpec, variants: Sequence[Variant]) -> tuple[str, list[dict[str, Any]]]:
    """Labels for the baseline and for the variants that hypotheses speak of."""
    faults: list[str] = []

    def label(what: str, reference: str) -> str:
        for variant in variants:
            if reference == variant.label or set(reference.split()) == set(variant.words):
                return variant.label
        faults.append(
            f"{what} {reference!r} is not in the plan; variants: {', '.join(v.label for v in variants)}"
        )
        return ""

    baseline = label("baseline", spec.baseline) if spec.baseline else ""
    hypotheses = resolve(spec.hypotheses, baseline, label, faults)
    gather(faults, headline=f"invalid sweep {spec.name}", error=ConfigError)
    return baseline, hypotheses
