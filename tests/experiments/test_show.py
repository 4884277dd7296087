"""``python -m experiments show``: the right numbers, every state of a group, hostile text, and what is refused."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.recorded.find import choose, find_run
from experiments.recorded.group import RecordedGroup, load_group
from experiments.recorded.page import render
from experiments.recorded.story import headline, story, sums_of
from experiments.recorded.text import number, one_line, plural, signed, visible
from gagar_core.agent.transcript import matches, replayed
from gagar_core.errors import RecordsError
from gagar_core.records import RunFolder
from tests.experiments.recorded_run import FEW_TASKS, make_run

ROOT = Path(__file__).parent.parent.parent


def load(folder: Path, step: int, group: int) -> RecordedGroup:
    return load_group(RunFolder(folder), step, group)


def test_visible_keeps_letters_and_disarms_the_rest() -> None:
    assert visible("λ ≤ 1.5\n\tx é 漢") == "λ ≤ 1.5\n    x é 漢"
    assert visible("a\x1b[31m\x00\x7f\u202e\u2066\ufeff\r\nb\r") == (
        "a\\x1b[31m\\x00\\x7f\\u202e\\u2066\\ufeff\nb\\x0d"
    )
    assert visible("\udcff\U000e0001") == "\\udcff\\U000e0001"
    assert one_line("a\nb", 3) == "a …"
    assert [number(None), number(-0.5), signed(0.25), signed(0.0)] == ["–", "−0.5", "+0.25", "0"]
    assert [plural(1, "pass"), plural(2, "pass"), plural(3, "trajectory")] == [
        "1 pass",
        "2 passes",
        "3 trajectories",
    ]


def test_turns_lead_back_to_the_file() -> None:
    said = ["def f(n):\n    return n\n<run>", "<top>    if n == 2:\n        return 8\n<submit>"]
    assert replayed(said).source == "def f(n):\n    if n == 2:\n        return 8\n    return n\n"
    repaired = replayed(["<next><replace>    return n + 1\n<submit>"], "def f(n):\n    return n\n")
    assert repaired.source == "def f(n):\n    return n + 1\n"
    assert matches(repaired, 2, 6)
    assert not matches(repaired, 3, 6)


def test_candidates_are_in_the_graders_order_and_twins_are_named(recorded_run: Path) -> None:
    group = load(recorded_run, 1, 2)
    assert [c.index for c in group.candidates] == [0, 1, 2, 3]
    assert [c.twin for c in group.candidates] == [None, 0, None, None]
    assert [c.lucky for c in group.candidates] == [False, False, True, False]
    assert group.candidates[1].program == group.candidates[0].program == "def f(n):\n    return n * n * n\n"
    assert group.task is not None
    assert "f(n)" in group.task.statement


def test_sums_and_formula_are_those_of_the_rows(recorded_run: Path) -> None:
    group = load(recorded_run, 1, 2)
    sums = sums_of(group)
    assert [sums.before, sums.after, sums.mass, sums.weighted] == pytest.approx([0.75, 0.75, 0.75, 0.4125])
    maths = [line for chapter in story(group) for line in chapter.maths]
    assert "S = Σ A⁺ = 3 × 0.25 = 0.75" in maths
    assert "W = Σ f·A⁺ = 1·0.25 + 0.55·0.25 + 0.1·0.25 = 0.4125" in maths
    assert "λ = S / W = 0.75 / 0.4125 = 1.818" in maths
    assert "A*(#2) = λ·f·A⁺ = 1.818 · 0.1 · 0.25 = +0.04545" in maths
    assert "Σ over failing: −0.75 before, −0.75 after" in maths
    # #2 passes by luck: it held a third of the advantage, and now .04545 / .75
    assert "on passes that audit tests confirm: 66.7% before, 93.9% after" in maths
    # lengths 20, 21, 22 and 23: (-1.5 - .5 + .5) * .25 / 4 - 1.5 * .75 / 4 before
    assert any(line.startswith("covariance of tokens and advantage: −0.375 before") for line in maths)
    assert headline(group).endswith("(λ 1.818). Their sum stays 0.75.")
    texts = " ".join(chapter.text for chapter in story(group))
    assert "Failing rows are untouched, bit for bit." in texts
    assert "show that #2 is wrong all the same" in texts


@pytest.mark.parametrize(
    ("step", "group", "words"),
    [
        (0, 0, "Single pass: the loss uses the base advantages, bit for bit."),
        (1, 1, "Every trajectory passes, so the outcome tells none from the others. The group is in no loss"),
        (1, 3, "No ranking: ValueError: [red]\\x1b[2J."),
    ],
)
def test_groups_that_were_not_redistributed_say_why(
    recorded_run: Path, step: int, group: int, words: str
) -> None:
    assert words in " ".join(chapter.text for chapter in story(load(recorded_run, step, group)))


def test_a_reached_cap_and_conserved_tokens_are_told(tmp_path: Path) -> None:
    group = load(make_run(tmp_path, "redistribution=paper"), 1, 2)
    capped = replace(group, row=group.row | {"lambda_": 1.5, "capped": True})
    maths = [line for chapter in story(capped) for line in chapter.maths]
    assert "λ = S / W would be 1.818; the cap lambda_max = 1.5 was reached: 1.5 was used" in maths
    assert not [line for line in maths if line.startswith("A*")]  # the formula does not give what is recorded
    by_token = load(make_run(tmp_path, "redistribution.conserve=token"), 1, 2)
    maths = [line for chapter in story(by_token) for line in chapter.maths]
    assert "S = Σ u·A⁺ = 20·0.25 + 21·0.25 + 22·0.25 = 15.75" in maths
    cut = replace(group.candidates[0], row=group.candidates[0].row | {"adv_used": 0.4})
    uneven = replace(group, candidates=(cut, *group.candidates[1:]))
    # .4 + .25 + .25 / 5.5
    assert headline(uneven).endswith("The sum over the passes was not kept: 0.75 became 0.6955.")
    uneven = replace(by_token, candidates=uneven.candidates)
    assert headline(uneven).endswith("Their sum over tokens stays 15.75.")


def test_the_instructive_group_is_chosen_and_only_its_chunk_is_needed(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    chosen = choose(folder, None, None)
    assert (chosen.step, chosen.group_id) == (1, 2)
    assert "3 of 4 pass, one of them by luck, with 3 different weights" in chosen.why
    assert (choose(folder, 0, None).group_id, choose(folder, None, 3).step) == (0, 1)
    for table in ("trajectories", "segments", "groups"):
        next((folder / table).glob("000000-*.parquet")).unlink()
    assert len(load(folder, 1, 2).candidates) == 4
    with pytest.raises(RecordsError, match="lacks steps 0-0"):
        choose(folder, None, None)


def test_page_is_inert_and_complete(
    recorded_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recorded_run
    assert main(["show", str(folder)]) == 0
    page = (folder / "show" / "step_1_group_2.html").read_text()
    assert f"page: {folder / 'show' / 'step_1_group_2.html'}" in capsys.readouterr().out
    assert not re.search(r"<script|<link|<img|https?://|url\(|\son\w+=|javascript:", page)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", page)
    text = html.unescape(re.sub("<[^>]*>", "", page))
    for words in (
        "</pre><script>alert(\"x\")</script> [bold red]λ[/] \\x1b[31mred\\x1b[0m \\x07 \\u202ereversed", "y" * 300,
        "{{ 7 * 7 }}", "<b>1.0</b> \\x1b[5m", "The same program as #0.", "λ = S / W = 0.75 / 0.4125 = 1.818",
        "gave [red]1[/], expected 8", "−0.75 untouched", "fails 21 of 24 audit tests",
    ):  # fmt: skip
        assert words in text, words
    assert page.count('class="parts"') == 2


@pytest.mark.parametrize("width", ["70", "140"])
def test_terminal_shows_hostile_text_as_text(
    recorded_run: Path,
    width: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["show", str(recorded_run), "--step", "1", "--no-html"]) == 0
    out = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", out)
    assert max(map(len, out.splitlines())) <= int(width)
    flat = re.sub(r"[\s│]+", "", out)
    assert "</pre><script>" in flat
    assert "[boldred]λ[/]" in flat
    assert flat.count("y") >= 300
    assert "thesameprogramas#0" in flat
    assert "−0.75untouched" in flat
    assert "+0.4545" in flat


def test_lists(recorded_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = recorded_run
    assert main(["show", str(folder), "--list"]) == 0
    assert capsys.readouterr().out.split("abstained")[1].split()[:12] == (
        ["0", "1", "1", "0", "1", "0", "1", "3", "2", "1", "1", "1"]
    )
    assert main(["show", str(folder), "--list", "--step", "1"]) == 0
    out = capsys.readouterr().out
    assert "dropped: all_pass" in out
    assert "\x1b" not in out


def test_unknown_names_are_answered_with_the_valid_ones(
    recorded_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, root = recorded_run, recorded_run.parents[2]
    for words, said in (
        (["nowhere"], [folder.name, "gagar tasks.sft_tasks=60"]),
        ([str(folder), "--step", "7"], ["no step 7", "it has 0-1"]),
        ([str(folder), "--group", "9"], ["no group 9", "0-3"]),
        ([str(folder), "--step", "1", "--group", "0"], ["step 1 has no group 0", "1-3"]),
        ([], ["one RUN"]),
        ([str(tmp_path / "nothing")], ["no run"]),
        ([str(tmp_path)], ["holds no run"]),
        ([str(folder), "--html", f"{folder}/config.json/x.html"], ["cannot write the page", "--html"]),
    ):
        assert main(["show", *words, f"root={root}"]) == 2
        err = capsys.readouterr().err
        assert all(part in err for part in said), err
        assert "Traceback" not in err


def test_runs_are_found_by_folder_id_prefix_and_label(tmp_path: Path) -> None:
    folder, root = make_run(tmp_path), str(tmp_path)
    label = f"gagar {' '.join(FEW_TASKS)}:0"
    for word in (str(folder), folder.name, folder.name[:5], label, f"{root}/single", root):
        assert find_run(word, root).run.path == folder
    other = make_run(tmp_path, "seed=1")
    assert find_run(root).why.startswith(f"{root} holds 2 runs: this is {min(folder, other).name}, the first")
    for run in (folder, other):
        shutil.rmtree(run / "groups")
    plain = make_run(tmp_path, "seed=2", "redistribution=none", "weighting=uniform")
    shutil.rmtree(plain / "groups")
    assert find_run(root).run.path == min(folder, other)
    assert "no group of theirs had passes to tell apart" in find_run(root).why
    shutil.copytree(folder, tmp_path / "again" / "runs" / folder.name)
    with pytest.raises(RecordsError, match="names 2 runs"):
        find_run(folder.name, root)


def test_tasks_of_another_checkout_cost_only_the_statement(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"list_functions"', '"elsewhere"'))
    group = load(folder, 1, 2)
    assert group.task is None
    assert "elsewhere" in group.no_task
    assert main(["show", str(folder)]) == 0


def test_help_teaches_and_ends_quietly_in_a_pipe() -> None:
    command = f"{sys.executable} -m experiments"
    for words in ("--help", "show --help"):
        done = subprocess.run(
            f"{command} {words} | head -n 1; exit ${{PIPESTATUS[0]}}",
            shell=True, executable="/bin/bash", cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "python -m experiments" in done.stdout


def test_unknown_command_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shwo"]) == 2
    assert "choose one of show" in capsys.readouterr().err
    assert main(["run"]) == 2
    assert "python -m experiments.run" in capsys.readouterr().err


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_PROBE = """
<script>
const wide = [...document.querySelectorAll('body *')].filter(
  e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest('thead'));
document.title = JSON.stringify({width: document.documentElement.clientWidth,
  scroll: document.documentElement.scrollWidth, wide: wide.map(e => e.className || e.tagName),
  scripts: document.scripts.length,
  bars: [...document.querySelectorAll('.track i, .meter i')].filter(e => e.offsetWidth > 0).length});
</script>
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width", [400, 1280])
def test_page_in_a_browser(recorded_run: Path, width: int, tmp_path: Path) -> None:
    page = render(load(recorded_run, 1, 2), RunFolder(recorded_run))
    (tmp_path / "inner.html").write_text(page.replace("</body>", _PROBE + "</body>"))
    frame = tmp_path / "frame.html"
    # an iframe of the wanted width: headless windows refuse to be narrower than 500 pixels
    frame.write_text(
        f'<iframe id="f" src="inner.html" style="width:{width}px;height:900px;border:0" onload="'
        "document.title = document.getElementById('f').contentDocument.title\"></iframe>"
    )
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=5000", "--dump-dom", frame.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    seen = json.loads(html.unescape(done.stdout.split("<title>")[1].split("</title>")[0]))
    # bars: three weights, two for each of #0 and #2, one for each of #1 and #3; the probe is the only script
    assert seen == {"width": width, "scroll": width, "wide": [], "scripts": 1, "bars": 3 + 4 + 2}
