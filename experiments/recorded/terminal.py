"""A recorded group in the terminal, as wide as the terminal is; recorded text never reaches it as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from experiments.recorded.find import groups_of
from experiments.recorded.group import Candidate, RecordedGroup, Turn
from experiments.recorded.story import Chapter, headline, story
from experiments.recorded.text import number, one_line, plural, share, signed, verdict, visible
from gagar_core.records import RunFolder

_CARD = 46
"""Narrowest column of a program, characters."""
_BAR, _NARROW_BAR, _NARROW = 14, 6, 100
"""Longest bar, and the longest on a terminal narrower than so many characters."""
_LINES = 40
"""Lines of a program or turn that are shown; the page shows all."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def show_group(console: Console, group: RecordedGroup) -> None:
    """Print statement, comparison, story and programs."""
    console.print(_heading(group))
    console.print(comparison(group, _BAR if console.width >= _NARROW else _NARROW_BAR))
    for count, chapter in enumerate(story(group), start=1):
        console.print(_chapter(count, chapter))
    console.print(Rule("Side by side, best first", style="dim", align="left"))
    console.print(_cards(console.width, group.candidates))


def _heading(group: RecordedGroup) -> RenderableType:
    row, task = group.row, group.task
    statement = task.statement if task else f"(no statement: {group.no_task})"
    lines = Text(visible(statement), style="bold")
    public = () if task is None else task.public
    tests = [f"{_call(case.args)} = {one_line(repr(case.expected), 40)}" for case in public[:4]]
    if tests:
        more = " …" if len(public) > 4 else ""
        lines.append(f"\npublic tests: {'; '.join(tests)}{more}", style="not bold")
    lines.append(f"\n{headline(group)}", style="not bold italic")
    title = f"step {row['step']}, group {row['group_id']}: {one_line(row['task_id'], 60)}"
    return Panel(lines, title=Text(title), title_align="left", border_style="dim")


def _call(args: Sequence[object]) -> str:
    return f"f({one_line(', '.join(map(repr, args)), 60)})"


def comparison(group: RecordedGroup, bar: int = _BAR) -> Table:
    """The candidates as a table with bars of ``bar`` characters for weight and advantage."""
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for name in ("", "verdict", "tests", "audit", "tokens", "rank"):
        table.add_column(name, justify="left" if name in ("", "verdict") else "right", no_wrap=True)
    for name in ("weight f", "advantage before → after"):
        table.add_column(name, no_wrap=True)
    largest = max((abs(v) for c in group.candidates for v in (c.base, c.used) if v is not None), default=0.0)
    for candidate in group.candidates:
        table.add_row(*_cells(group, candidate, largest, bar))
    return table


def _cells(group: RecordedGroup, candidate: Candidate, largest: float, bar: int) -> list[RenderableType]:
    row, style = candidate.row, "" if candidate.passed else "dim"
    recorded = row["reward_pass"] is not None
    tests = share(row["reward_pass"], row["reward_n"]) if recorded else "pass" if candidate.passed else "fail"
    audit = Text(share(row["audit_pass"], row["audit_n"]), style="yellow" if candidate.lucky else style)
    weighted = group.acted and candidate.passed
    return [
        Text(f"#{candidate.index}", style="bold" if candidate.passed else style),
        Text(_verdict(candidate), style=style),
        Text(tests, style=style),
        audit,
        Text(str(row["gen_tokens"]), style=style),
        Text(number(row["rank"]) if candidate.passed else "–", style=style),
        _weight(candidate, bar) if weighted else Text("–", style="dim"),
        _before_after(candidate, largest, bar),
    ]


def _weight(candidate: Candidate, bar: int) -> Text:
    return _bar((candidate.weight or 0.0) * bar, "cyan", number(candidate.weight), bar)


def _verdict(candidate: Candidate) -> str:
    return one_line(verdict(candidate.passed, lucky=candidate.lucky, recorded=candidate.row["verdict"]))


def _before_after(candidate: Candidate, largest: float, bar: int) -> RenderableType:
    if candidate.base is None or candidate.used is None:
        return Text("dropped", style="dim")
    unit = bar / largest if largest else 0.0
    if candidate.base == candidate.used:
        words = f"{signed(candidate.base)} {'unchanged' if candidate.passed else 'untouched'}"
        return _bar(candidate.base * unit, _colour(candidate.base, "dim "), words, bar)
    before = _bar(candidate.base * unit, _colour(candidate.base, "dim "), signed(candidate.base), bar)
    words = signed(candidate.used)
    words += f" ({signed(candidate.used - candidate.base)})" if bar > _NARROW_BAR else ""
    return Group(before, _bar(candidate.used * unit, _colour(candidate.used), words, bar))


def _colour(value: float, prefix: str = "") -> str:
    return prefix + ("green" if value > 0 else "red")


def _bar(length: float, style: str, words: str, room: int) -> Text:
    """A bar of ``length`` characters, in eighths of one, in ``room`` characters, then words."""
    eighths = round(8 * abs(length))
    bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return Text.assemble((bar.ljust(room), style), " ", words)


def _chapter(count: int, chapter: Chapter) -> RenderableType:
    body = Text.assemble((f"\n{count}  {chapter.title}\n", "bold"), chapter.text)
    for line in chapter.maths:
        body.append(f"\n   {line}", style="cyan")
    return body


def _cards(width: int, candidates: Sequence[Candidate]) -> Table:
    columns = max(1, min(len(candidates), width // _CARD))
    table = Table.grid(expand=True, padding=(0, 1))
    for _ in range(columns):
        table.add_column(ratio=1)
    cards = [_card(candidate) for candidate in candidates]
    for first in range(0, len(cards), columns):
        table.add_row(*cards[first : first + columns])
    return table


def _card(candidate: Candidate) -> Panel:
    parts: list[RenderableType] = [_program(candidate)]
    if candidate.evidence:
        parts.append(Text(f"evidence: {visible(candidate.evidence)}", style="italic", overflow="fold"))
    parts += _turns(candidate)
    title = f"#{candidate.index} {_verdict(candidate)}"
    rank = candidate.row["rank"]
    title += f", rank {number(rank)}" if rank is not None and candidate.passed else ""
    style = "yellow" if candidate.lucky else "green" if candidate.passed else "dim red"
    return Panel(Group(*parts), title=Text(title), title_align="left", border_style=style, padding=(0, 1))


def _program(candidate: Candidate) -> Text:
    if candidate.twin is not None:
        return Text(f"the same program as #{candidate.twin}", style="italic")
    if candidate.program is None:
        return Text("the last file cannot be rebuilt from the turns", style="italic")
    return _clipped(candidate.program or "(nothing was written)")


def _turns(candidate: Candidate) -> Iterable[Text]:
    if len(candidate.turns) == 1 and candidate.program is not None:
        yield Text("one turn: written and submitted untested", style="dim")
        return
    count = plural(sum(turn.role == "agent" for turn in candidate.turns), "turn")
    yield Text(f"{count}, {plural(candidate.row['test_runs'] or 0, 'test run')}:", style="dim")
    for turn in candidate.turns:
        yield _turn(turn)


def _turn(turn: Turn) -> Text:
    mark, style = ("▸ ", "dim") if turn.role == "agent" else ("◂ ", "magenta")
    text = _clipped(turn.text.strip("\n"))
    text.stylize(style)
    return Text(mark, style=style).append_text(text)


def _clipped(text: str) -> Text:
    lines = visible(text).rstrip("\n").split("\n")
    more = len(lines) - _LINES
    if more > 0:
        lines = [*lines[:_LINES], f"… {plural(more, 'line')} more"]
    return Text("\n".join(lines), overflow="fold")


def list_steps(console: Console, run: RunFolder) -> None:
    """Print the steps of a run: how many groups were sampled, kept and redistributed."""
    import polars as pl

    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("step", "groups", "kept", "redistributed", "fell back", "abstained"):
        table.add_column(name, justify="right")
    grouped = groups_of(run.path).group_by("step", maintain_order=True)
    counted = grouped.agg(
        pl.len(),
        pl.col("kept").sum().alias("kept"),
        pl.col("lambda_").is_not_null().sum().alias("acted"),
        (pl.col("fallback").fill_null("") != "").sum().alias("fallback"),
        (pl.col("abstain").fill_null("") != "").sum().alias("abstain"),
    )
    for row in counted.iter_rows():
        table.add_row(*map(str, row))
    console.print(table)


def list_groups(console: Console, run: RunFolder, step: int) -> None:
    """Print the groups of a step, each with what became of it."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name, side in (("group", "right"), ("pass", "right"), ("λ", "right"), ("task", "left"), ("", "left")):
        table.add_column(name, justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in groups_of(run.path, step).iter_rows(named=True):
        passes = share(row["n_pass"], row["n"])
        table.add_row(
            str(row["group_id"]), passes, number(row["lambda_"]), one_line(row["task_id"]), fate(row)
        )
    console.print(table)


def fate(row: dict[str, object]) -> Text:
    """What became of a group, from its row."""
    if not row["kept"]:
        return Text(f"dropped: {_reason(row)}", style="dim")
    if row["lambda_"] is None:
        why = row["fallback"] or row["abstain"] or "nothing is redistributed"
        return Text(f"base advantages: {one_line(str(why))}", style="yellow" if row["abstain"] else "")
    return Text("redistributed, cap reached" if row["capped"] else "redistributed", style="green")


def _reason(row: dict[str, object]) -> str:
    return one_line(str(row["drop_reason"]))
