"""Curves by hand: trends, risk, collapse, runs that end early, truncation; and reading damaged folders."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from analysis.curves import Curve, training_curves
from analysis.data import read
from analysis.endpoints import FINISHED_ONLY, LAST_COMMON, choose_endpoint, filled
from analysis.frames import Tables, open_tables
from analysis.length import length_quantiles, overlong_rate, truncation_cause
from analysis.series import summarise
from analysis.stability import (
    collapse,
    differences,
    dispersion_over_time,
    drawdowns,
    long_term_risk,
    regressed,
    short_term_risk,
)
from analysis.statistics import mean_estimate
from analysis.step_signals import read_signals
from analysis.study import DAMAGED, FAILED, FINISHED, UNFINISHED, Run, Sweep, load_run, load_sweeps
from analysis.training import read_training
from analysis.trend import fit_line, growth, log_slope, percent_per_100
from gagar_core import records
from gagar_core.errors import InputError

EXACT = {"abs": 1e-6, "rel": 0.0}
FALL = [0.1, 0.3, 0.5, 0.6, 0.2, 0.1, 0.15, 0.1, 0.1, 0.1]


def test_slope_and_growth() -> None:
    line = fit_line(range(5), [100, 110, 125, 130, 150])
    assert line.interval is not None
    assert (line.slope, line.intercept, line.se) == pytest.approx((12, 99, 1.154701), **EXACT)
    assert (line.interval.low, line.interval.high) == pytest.approx((8.325228, 15.674772), **EXACT)
    seeds = mean_estimate([12, 8, 10])
    assert seeds.interval is not None
    assert (seeds.interval.low, seeds.interval.high) == pytest.approx((5.031725, 14.968275), **EXACT)
    slope = log_slope([0, 100, 200], [1000, 1100, 1210])
    assert slope == pytest.approx(0.000953102, abs=1e-9)
    assert percent_per_100(slope) == pytest.approx(10.0, **EXACT)
    assert growth([slope]).doubling_steps == pytest.approx(727.25409, abs=1e-4)
    assert growth([-0.01, -0.02]).doubling_steps is None


@given(arrays(np.float64, st.tuples(st.integers(3, 20), st.just(2)), elements=st.floats(-50, 50)))
def test_line_agrees_with_scipy(points: np.ndarray) -> None:
    x, y = points[:, 0], points[:, 1]
    assume(np.ptp(x) > 1e-3 and np.ptp(y) > 1e-3)
    oracle, found = stats.linregress(x, y), fit_line(x, y)
    assert found.slope == pytest.approx(oracle.slope, rel=1e-6, abs=1e-6)
    if abs(oracle.rvalue) < 1 - 1e-9:
        assert found.se == pytest.approx(oracle.stderr, rel=1e-4, abs=1e-6)


def test_a_line_needs_two_places() -> None:
    with pytest.raises(InputError, match="two different x"):
        fit_line([1, 1], [2, 3])
    with pytest.raises(InputError, match="positive lengths"):
        log_slope([0, 1], [0, 5])
    assert fit_line([0, 1, 2], [1, math.nan, 5]).slope == pytest.approx(2)


def test_risk_takes_the_upper_tail_of_drawdowns() -> None:
    assert drawdowns(FALL).max() == pytest.approx(0.5, **EXACT)
    for alpha, wanted in ((0.05, 0.5), (0.2, 0.5), (0.5, 0.49)):
        assert long_term_risk(FALL, alpha) == pytest.approx(wanted, **EXACT)
    # the published code's lower tail gives 0 here: a run that lost everything would look perfect
    d = drawdowns(FALL)
    assert d[d <= np.quantile(d, 0.05)].mean() == 0.0
    assert short_term_risk(FALL) == pytest.approx(-0.4, **EXACT)
    assert short_term_risk(FALL, alpha=0.2) == pytest.approx(-0.25, **EXACT)
    assert dispersion_over_time(FALL) == pytest.approx(0.15, **EXACT)
    y, t = [0, 0.1, 0.3, 0.5], [0, 10, 20, 40]
    assert differences(y, t).tolist() == pytest.approx([0.01, 0.02, 0.01], **EXACT)
    assert dispersion_over_time(y, t) == pytest.approx(0.005, **EXACT)


def test_risk_of_flat_and_falling_curves_is_finite() -> None:
    # dividing by the curve's own range makes a flat run NaN and flips the sign of a falling one
    assert short_term_risk([0.3] * 5) == 0.0
    assert long_term_risk([0.3] * 5) == 0.0
    assert short_term_risk([0.5, 0.4, 0.2]) == pytest.approx(-0.2)


def test_collapse_states() -> None:
    found = collapse(FALL)
    assert (found.state, found.onset, found.drop) == ("collapsed", 4, pytest.approx(0.5))
    back = collapse([0.1, 0.3, 0.5, 0.6, 0.2, 0.4, 0.55, 0.6, 0.6, 0.6])
    assert (back.state, back.onset, back.recovered_after) == ("transient", 4, 2)
    late = collapse([0.1, 0.3, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.2])
    assert (late.state, late.onset) == ("suspected", 9)
    assert collapse([0.3] * 10).state == "none"
    only_down = [0.5, 0.4, 0.3, 0.2, 0.1, 0.1]
    assert collapse(only_down).state == "none"
    assert regressed(only_down)
    assert not regressed(FALL)
    twice = collapse([0.1, 0.6, 0.2, 0.6, 0.6, 0.1, 0.1, 0.1, 0.1])
    assert (twice.state, twice.onset) == ("collapsed", 5)
    assert regressed([0.5, 0.4, 0.4, 0.4])


@given(arrays(np.float64, st.integers(2, 25), elements=st.floats(0, 1)))
def test_a_rising_curve_never_collapses(values: np.ndarray) -> None:
    rising = np.sort(values)
    assert collapse(rising).state == "none"
    assert not regressed(rising)
    assert long_term_risk(rising) == 0.0


def run(run_id: str, status: str = FINISHED) -> Run:
    return Run(Path(), run_id, "v", int(run_id[-1]), status)


NAN = math.nan
ABC = Curve(
    ("r0", "r1", "r2"),
    np.array([0, 20, 40, 60, 80, 100]),
    np.array(
        [
            [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
            [0.1, 0.16, 0.22, 0.28, 0.34, 0.40],
            [0.1, 0.3, 0.5, NAN, NAN, NAN],
        ]
    ),
)


def test_a_run_that_died_is_not_averaged_away() -> None:
    series = summarise(ABC)
    assert series["n"] == [3, 3, 3, 2, 2, 2]
    assert series["solid_until"] == 40
    assert series["mean"][:4] == pytest.approx([0.1, 0.22, 0.34, 0.34], **EXACT)
    carried = filled(ABC, "carried_forward").mean(axis=0)
    assert carried[3:].tolist() == pytest.approx([0.393333, 0.446667, 0.5], **EXACT)
    zero = filled(ABC, "dead_as_zero").mean(axis=0)
    assert zero[3:].tolist() == pytest.approx([0.226667, 0.28, 0.333333], **EXACT)
    assert np.isnan(filled(ABC, "available")[2, 3:]).all()
    with pytest.raises(InputError, match="available, carried_forward, dead_as_zero"):
        filled(ABC, "interpolate")


def test_endpoints() -> None:
    died = [run("r0"), run("r1"), run("r2", FAILED)]
    found = choose_endpoint(ABC, died)
    assert (found.step, found.policy, len(found.run_ids)) == (40, LAST_COMMON, 3)
    running = choose_endpoint(ABC, [run("r0"), run("r1"), run("r2", UNFINISHED)])
    assert (running.step, running.run_ids) == (100, ("r0", "r1"))
    at_start = Curve(ABC.run_ids, ABC.steps, ABC.values.copy())
    at_start.values[2, 1:] = NAN
    survivors = choose_endpoint(at_start, died)
    assert (survivors.step, survivors.policy, survivors.run_ids) == (100, FINISHED_ONLY, ("r0", "r1"))
    empty = choose_endpoint(ABC, [run("r0", UNFINISHED)])
    assert (empty.step, empty.run_ids) == (None, ())
    unrecorded = choose_endpoint(ABC, [run("r0"), run("r7")])
    assert (unrecorded.step, unrecorded.run_ids) == (100, ("r0",))


def test_one_seed_has_no_band() -> None:
    series = summarise(ABC.select(["r0"]))
    assert series["n"] == [1] * 6
    assert all(math.isnan(v) for v in series["low"] + series["high"])


def test_long_curves_are_bucketed_by_their_end() -> None:
    steps = np.arange(1, 1001)
    curve = Curve(("r0",), steps, steps[None, :].astype(float))
    series = summarise(curve)
    assert (series["bucket"], len(series["step"])) == (5, 200)
    assert (series["step"][0], series["mean"][0]) == (5, 3.0)
    assert (series["step"][-1], series["mean"][-1]) == (1000, 998.0)


def test_truncation_is_what_the_stop_reason_says() -> None:
    sizes = [(2, 6), (3, 5), (4, 4)]
    causes = [truncation_cause("token_budget", p, r, response_cap=6, context=8) for p, r in sizes]
    assert causes == ["response_cap and context", "context", "context"]
    assert overlong_rate(causes) == (1.0, {"context": 2, "response_cap and context": 1})
    # comparing lengths with the cap would find one of three, and would call this finished reply cut off
    assert truncation_cause("submit", 2, 6, 6, 8) == ""
    assert truncation_cause("turn_limit", 2, 3, 6, 8) == "turn_limit"
    assert overlong_rate(["", "", "turn_limit", ""]) == (0.25, {"turn_limit": 1})


def tables_of(run: Run) -> Tables:
    return open_tables(Sweep("s", run.path, "", None, (), "", {}, False, (run,)))[1]


def training(here: Tables) -> dict[str, Curve]:
    return training_curves([run.run_id for run in here.runs], read_training(here).sums)


def write_tokens(folder: Path, rows: list[dict[str, object]], step: int = 0, attempt: int = 1) -> None:
    writer = records.RunWriter(folder, "r0", attempt)
    writer.add("trajectories", step, rows)
    writer.flush()


def test_sums_do_not_wrap_and_idle_trajectories_count(tmp_path: Path) -> None:
    row = {"passed": True, "valid": True, "gen_tokens": 2_000_000_000, "obs_tokens": 0, "test_runs": 0}
    write_tokens(tmp_path, [row, row, row])
    here = Run(tmp_path, "r0", "v", 0, FINISHED)
    curves = training(tables_of(here))
    assert curves["train_tokens"].values[0, 0] == 2e9
    assert curves["train_test_runs"].values[0, 0] == 0.0
    assert length_quantiles([here], min_tail=0)["sum"].item() == 6_000_000_000


def test_quantiles_are_exact_linear_and_null_where_thin(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    tokens = {True: rng.integers(1, 900, 450), False: rng.integers(1, 900, 30)}
    rows = [
        {"passed": passed, "valid": True, "gen_tokens": int(t)} for passed, ts in tokens.items() for t in ts
    ]
    write_tokens(tmp_path, [*rows, {"passed": False, "valid": False, "gen_tokens": 10**6}])
    frame = length_quantiles([Run(tmp_path, "r0", "v", 0, FINISHED)])
    for cell in frame.iter_rows(named=True):
        values = tokens[cell["passed"]]
        assert (cell["n"], cell["sum"], cell["max"]) == (values.size, values.sum(), values.max())
        for name, q in (("q50", 0.5), ("q90", 0.9), ("q95", 0.95), ("q99", 0.99)):
            if values.size >= 20 / (1 - q):
                assert cell[name] == pytest.approx(float(np.quantile(values, q)))
            else:
                assert cell[name] is None
    with pytest.raises(InputError, match="column must be one of"):
        length_quantiles([Run(tmp_path, "r0", "v", 0, FINISHED)], "task_id")


def test_quantiles_merge_steps_into_buckets(tmp_path: Path) -> None:
    for step in range(4):
        write_tokens(tmp_path, [{"passed": True, "valid": True, "gen_tokens": step}], step)
    frame = length_quantiles([Run(tmp_path, "r0", "v", 0, FINISHED)], bucket=2, min_tail=0)
    assert frame.select("step", "n", "sum").rows() == [(0, 2, 1), (2, 2, 5)]


def checked(path: Path) -> Run:
    return open_tables(load_sweeps(path)[0])[0].runs[0]


def tables(path: Path) -> Tables:
    return open_tables(load_sweeps(path)[0])[1]


def test_interrupted_writing_is_never_a_shorter_run(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    folder = make_run(tmp_path, "r0", "grpo", 0, steps=30, planned_steps=30)
    chunk = folder / "steps" / "000020-000029.a1.parquet"
    chunk.write_bytes(b"")
    found = checked(folder)
    assert found.status == DAMAGED
    assert "table steps lacks steps 20-29" in found.reason


def test_same_chunk_twice_counts_once(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    folder = make_run(tmp_path, "r0", "grpo", 0)
    before = tables(folder).scan("steps").collect().height
    manifest = folder / "steps" / "_manifest.json"
    content = json.loads(manifest.read_text())
    content["chunks"].append(content["chunks"][0])
    manifest.write_bytes(records.to_json(content))
    assert checked(folder).status == FINISHED
    assert tables(folder).scan("steps").collect().height == before
    # another file with the same steps of the same attempt cannot be told from a double count
    copy = folder / "steps" / "000005-000009.a1.parquet"
    copy.write_bytes((folder / "steps" / content["chunks"][0]["file"]).read_bytes())
    content["chunks"][-1] = content["chunks"][0] | {"file": copy.name, "first": 5, "last": 9}
    manifest.write_bytes(records.to_json(content))
    assert "both hold step 5 of attempt 1" in checked(folder).reason


def test_highest_attempt_of_a_step_wins(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    folder = make_run(tmp_path, "r0", "grpo", 0)
    row = {"passed": True, "valid": True, "gen_tokens": 7, "obs_tokens": 0}
    write_tokens(folder, [row], step=12, attempt=2)
    curve = training(tables(folder))["train_tokens"]
    assert curve.values[0, list(curve.steps).index(13)] == 7.0
    assert np.isfinite(curve.values).all()
    assert curve.steps.size == 20


def test_missing_steps_are_named(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    folder = make_run(tmp_path, "r0", "grpo", 0, steps=30, planned_steps=30)
    manifest = folder / "steps" / "_manifest.json"
    content = json.loads(manifest.read_text())
    content["chunks"] = [c for c in content["chunks"] if c["first"] != 10]
    manifest.write_bytes(records.to_json(content))
    (gap,) = tables(folder).gaps()
    assert (gap.run_id, gap.steps) == ("r0", tuple(range(10, 20)))


def test_a_finished_run_without_its_steps_is_named(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    folder = make_run(tmp_path, "r0", "grpo", 0)
    assert tables(folder).gaps() == []
    (folder / "steps" / "_manifest.json").unlink()
    (gap,) = tables(folder).gaps()
    assert (gap.table, gap.steps) == ("steps", tuple(range(20)))


def rewrite(folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    chunk = sorted((folder / "steps").glob("*.parquet"))[0]
    change(pl.read_parquet(chunk)).write_parquet(chunk)


def test_older_narrower_and_newer_columns_are_read(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    folder = make_run(tmp_path, "r0", "grpo", 0)
    rewrite(folder, lambda f: f.drop("entropy_tok").with_columns(pl.col("groups_sampled").cast(pl.Int16)))
    rewrite(folder, lambda f: f.with_columns(pl.lit(1.0).alias("novelty")))
    assert checked(folder).status == FINISHED
    assert tables(folder).unknown == {"steps": ["novelty"]}
    frame = tables(folder).scan("steps").collect()
    assert frame.height == 20
    assert frame["entropy_tok"].null_count() == 20
    rewrite(folder, lambda f: f.with_columns(pl.col("pass_rate").cast(pl.String)))
    assert "columns of another type: pass_rate is String" in checked(folder).reason


def test_a_file_that_only_looks_like_parquet_is_found(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    good, bad = (make_run(tmp_path, f"r{i}", "grpo", i, steps=30, planned_steps=30) for i in (0, 1))
    chunk = bad / "trajectories" / "000020-000029.a1.parquet"
    chunk.write_bytes(b"PAR1" + b"\0" * 50 + b"PAR1")
    (data,) = read(tmp_path)
    status = {r.run_id: r.status for r in data.sweep.runs}
    assert status == {good.name: FINISHED, bad.name: DAMAGED}
    assert "not readable Parquet" in next(r.reason for r in data.sweep.runs if r.run_id == bad.name)


def test_nan_and_infinity_are_counted(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    folder = make_run(tmp_path, "r0", "grpo", 0)
    bad = pl.when(pl.col("step") == 3).then(NAN).when(pl.col("step") == 5).then(math.inf).otherwise(1.0)
    rewrite(folder, lambda f: f.with_columns(bad.alias("loss")))
    assert read_signals(tables(folder))[1] == {"r0": {"loss": 2}}


def test_states_of_a_run(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    settings = {
        "r0": {},
        "r1": {"result": {"status": "diverged", "reason": "nan"}},
        "r2": {"result": None, "exit_status": "failed"},
        "r3": {"result": None, "exit_status": "killed"},
        "r4": {"result": None, "exit_status": None},
    }
    found = {k: load_run(make_run(tmp_path, k, "v", 0, **v)).status for k, v in settings.items()}  # type: ignore[arg-type]
    assert found == {"r0": FINISHED, "r1": "diverged", "r2": FAILED, "r3": "killed", "r4": UNFINISHED}
