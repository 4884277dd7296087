"""How far a change reaches, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_core.tasks.scope import Scope, functions_in, line_changes, scope_of

FILE = "def g(n):\n    return n\ndef f(xs):\n    r = 0\n    return r\n"


@pytest.mark.parametrize(
    ("after", "scope"),
    [
        (FILE, Scope(0, 0, 0, 0)),
        (FILE.replace("r = 0", "r = 1"), Scope(1, 1, 1, 1)),
        (FILE.replace("r = 0", "r = 1").replace("return n", "return 1"), Scope(2, 2, 1, 2)),
        (FILE + "def f(xs):\n    return 2\n", Scope(2, 0, 1, 1)),  # f is written again: one function
        (FILE + "def k(a):\n    return 2\n", Scope(2, 0, 1, 1)),
        ("", Scope(0, 5, 1, 2)),
        ("def g(n):\n    return n\n", Scope(0, 3, 1, 1)),
        ("x y z\n" + FILE, Scope(1, 0, 1, 0)),  # text that does not parse
    ],
)
def test_scopes(after: str, scope: Scope) -> None:
    assert scope_of({"f.py": FILE}, {"f.py": after}) == scope


def test_a_new_file_counts_whole() -> None:
    assert scope_of({}, {"f.py": FILE}) == Scope(5, 0, 1, 2)
    assert scope_of({}, {"f.py": ""}) == Scope(0, 0, 0, 0)
    assert scope_of({"a": "1\n"}, {"b": "2\n"}) == Scope(1, 1, 2, 0)


def test_functions_by_indent() -> None:
    assert functions_in("def f(x):\n    return 1\n\nx = 2\n    y\ndef g(:\n\treturn\n") == {
        "f": "def f(x):\n    return 1\n\n",
        "g": "def g(:\n\treturn\n",
    }


lines = st.lists(st.sampled_from("abcd"), max_size=8)


@given(lines, lines)
def test_line_changes_balance(old: list[str], new: list[str]) -> None:
    added, deleted = line_changes(old, new)
    assert added - deleted == len(new) - len(old)
    assert (added, deleted) == (0, 0) if old == new else added + deleted > 0
    assert added <= len(new)
    assert deleted <= len(old)
