"""Diffs from untrusted hands: what they may do, and that applying them gives what the author had."""

from __future__ import annotations

import ast
import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_core.sandbox import diffs
from gagar_core.sandbox.twins import twin_of

text = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "  d\n", "-e\n", "+f\n", "@@\n"]), max_size=30)


@given(old=text, new=text, context=st.integers(0, 4), ended=st.booleans())
def test_applying_a_diff_gives_the_new_text(
    old: list[str], new: list[str], context: int, ended: bool
) -> None:
    if not ended and new:
        new = [*new[:-1], new[-1].rstrip("\n") + "x"]
    lines: list[str] = []
    for line in difflib.unified_diff(old, new, "a/f", "b/f", n=context):
        lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    patches = diffs.parse("".join(lines))
    result = diffs.apply("".join(old), patches[0].hunks) if patches else "".join(old)
    assert result == "".join(new)


def test_a_hunk_is_found_near_its_line() -> None:
    hunk = [3, ["c\n"], ["C\n"]]
    assert diffs.apply("x\ny\na\nb\nc\nd\n", [hunk]) == "x\ny\na\nb\nC\nd\n"
    with pytest.raises(diffs.DiffError, match="does not fit near line 3"):
        diffs.apply("a\nb\n", [hunk])


GIT = """diff --git a/new.py b/new.py
new file mode 100644
index 0000000..e69de29
--- /dev/null
+++ b/new.py
@@ -0,0 +1,2 @@
+x = 1
+y = 2
\\ No newline at end of file
diff --git a/gone.py b/gone.py
deleted file mode 100644
index e69de29..0000000
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-z = 1
"""


def test_what_git_writes_is_read() -> None:
    patches = diffs.parse(GIT)
    assert [(p.path, p.action) for p in patches] == [("new.py", "create"), ("gone.py", "delete")]
    assert diffs.apply("", patches[0].hunks) == "x = 1\ny = 2"
    assert diffs.apply("z = 1\n", patches[1].hunks) == ""
    assert patches[0].added == ["x = 1\n", "y = 2"]


BODY = "@@ -1 +1 @@\n-x\n+y\n"
REFUSED = [
    "old mode 100644\nnew mode 100755\n",
    "rename from a\nrename to b\n",
    "copy from a\ncopy to b\n",
    "GIT binary patch\n",
    "Binary files a/x and b/x differ\n",
    "new file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+/etc/passwd\n",
    "new file mode 160000\n",
    f"--- a//etc/passwd\n+++ b//etc/passwd\n{BODY}",
    f"--- /etc/passwd\n+++ /etc/passwd\n{BODY}",
    f"--- a/x/../../y\n+++ b/x/../../y\n{BODY}",
    f"--- a/.git/config\n+++ b/.git/config\n{BODY}",
    f"--- a/sub/.git/hooks/x\n+++ b/sub/.git/hooks/x\n{BODY}",
    f'--- "a/x\\ty"\n+++ "b/x\\ty"\n{BODY}',
    f"--- a/x\x01\n+++ b/x\x01\n{BODY}",
    f"--- a/x\n+++ b/y\n{BODY}",
    f"--- /dev/null\n+++ /dev/null\n{BODY}",
    f"--- a/x\n+++ b/x\n{BODY}--- a/x\n+++ b/x\n{BODY}",
    "--- a/x\n+++ b/x\n@@ -1,3 +1 @@\n-x\n",
    "--- a/x\n+++ b/x\n@@ nonsense @@\n",
    "--- a/x\n+++ b/x\n@@ -1,99999999 +1 @@\n-x\n",
    BODY,
]


@pytest.mark.parametrize("diff", REFUSED, ids=range(len(REFUSED)))
def test_everything_else_is_refused(diff: str) -> None:
    with pytest.raises(diffs.DiffError):
        diffs.parse(diff)


def test_long_diffs_are_refused() -> None:
    with pytest.raises(diffs.DiffError, match="1000000 are allowed"):
        diffs.parse("x" * 1_000_001)


def test_twins_turn_every_assertion() -> None:
    source = "def test_a():\n    assert f(1) == 2\n    assert f(2)\n    assert 1 < f(3) < 4\n\ndef test_b():\n    f()\n"
    expected = (
        "def test_a():\n    assert f(1) == [2]\n    assert not f(2)\n    assert not 1 < f(3) < 4\n\n"
        "def test_b():\n    f()\n    assert False\n"
    )
    assert twin_of(source) == ast.unparse(ast.parse(expected))
