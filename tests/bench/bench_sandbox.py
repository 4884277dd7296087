"""What isolation costs: programs per CPU second, as ratios against a fresh interpreter per program.

Run ``python tests/bench/bench_sandbox.py [LEVEL]``. All figures are CPU seconds of this process and of every child,
so that they mean the same on a busy machine; each ratio's two sides are measured in the same run, in turns.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from gagar_core.sandbox import SandboxSettings, open_sandbox
from gagar_core.sandbox.broker import ProcessSandbox
from gagar_core.sandbox.repository import RepositoryGrader
from gagar_core.types import Program

SOURCE = "def f(a, b):\n    return a + b + {}\n"
TESTS = [(k, 2 * k) for k in range(10)]
FRESH = """
import json, sys
given = json.load(sys.stdin)
space = {}
exec(given["source"], space)
json.dump([space["f"](*arguments) for arguments in given["tests"]], sys.stdout)
"""


@dataclass
class Figures:
    """CPU seconds per program, and resident MiB of zygotes."""

    level: str
    fresh: float
    isolated: float
    closed: float
    hit: float
    zygote_mb: float
    pytest_zygote_mb: float

    def ratios(self) -> dict[str, tuple[float, float]]:
        """Name to (measured, wanted at least)."""
        return {
            "isolated program : fresh interpreter": (self.fresh / self.isolated, 3.0),
            "closed vocabulary : fresh interpreter": (self.fresh / self.closed, 30.0),
            "cache hit : isolated program": (self.isolated / self.hit, 50.0),
        }


def waited_cpu_s() -> float:
    """CPU seconds of this process and of children that have been waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def fresh_cpu_s(count: int) -> float:
    """One interpreter per program, without site packages."""
    python = getattr(sys, "_base_executable", sys.executable)
    before = waited_cpu_s()
    for k in range(count):
        given = json.dumps({"source": SOURCE.format(k), "tests": TESTS}).encode()
        run = subprocess.run([python, "-I", "-S", "-c", FRESH], input=given, capture_output=True, check=True)
        assert json.loads(run.stdout) == [a + b + k for a, b in TESTS]
    return (waited_cpu_s() - before) / count


def sandbox_cpu_s(sandbox: ProcessSandbox, start: int, count: int, *, closed: bool) -> float:
    """The same programs through the sandbox."""
    batch = [
        (Program(SOURCE.format(k), "f", closed_vocabulary=closed), TESTS) for k in range(start, start + count)
    ]
    before = time.process_time() + sandbox.cpu_s
    results = sandbox.calls_batch(batch)
    spent = time.process_time() + sandbox.cpu_s - before
    assert [[r.value for r in row] for row in results] == [
        [a + b + k for a, b in TESTS] for k in range(start, start + count)
    ]
    return spent / count


def best(measure: Callable[[int], float], rounds: int) -> float:
    """The least of several rounds: what the work costs when nothing else disturbs caches."""
    return min(measure(k) for k in range(rounds))


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def measure(level: str = "auto", count: int = 60, rounds: int = 3) -> Figures:
    """All figures of one level."""
    settings = SandboxSettings(level=level)
    with open_sandbox(replace(settings, cache_mb=0)) as sandbox, open_sandbox(settings) as caching:
        sandbox_cpu_s(sandbox, 0, 5, closed=False)
        sandbox_cpu_s(sandbox, 0, 5, closed=True)
        sandbox_cpu_s(caching, 0, 10 * count, closed=True)
        return Figures(
            level=sandbox.level,
            fresh=best(lambda k: fresh_cpu_s(count), rounds),
            isolated=best(lambda k: sandbox_cpu_s(sandbox, 1000 * k, count, closed=False), rounds),
            closed=best(lambda k: sandbox_cpu_s(sandbox, 1000 * k, 10 * count, closed=True), rounds),
            hit=best(lambda k: sandbox_cpu_s(caching, 0, 10 * count, closed=True), rounds),
            zygote_mb=resident_mb(sandbox._lanes[0].zygote.pid),
            pytest_zygote_mb=pytest_zygote_mb(settings),
        )


def pytest_zygote_mb(settings: SandboxSettings) -> float:
    with RepositoryGrader(settings) as grader:
        grader._zygote.start()
        return resident_mb(grader._zygote.pid)


def main() -> None:
    """Measure and print."""
    figures = measure(*sys.argv[1:2])
    print(f"level {figures.level}; a program has 10 tests; CPU ms per program:")
    for name in ("fresh", "isolated", "closed", "hit"):
        seconds = getattr(figures, name)
        print(f"  {name:9} {1000 * seconds:8.4f}   {1 / seconds:9.0f} programs per CPU second")
    for name, (ratio, wanted) in figures.ratios().items():
        print(f"  {name}: {ratio:.1f}x (wanted: {wanted:.0f}x){'' if ratio >= wanted else '  BELOW'}")
    print(
        f"  zygote {figures.zygote_mb:.0f} MiB (at most 40), with pytest {figures.pytest_zygote_mb:.0f} (at most 60)"
    )


if __name__ == "__main__":
    main()
