"""Tokens: exact text both ways, observations told in tokens, nothing outside the vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_core.agent.actions import TestReport
from gagar_core.agent.codec import Codec
from gagar_core.errors import InputError
from gagar_core.types import Case

CODEC = Codec()


def test_pieces_are_distinct() -> None:
    assert len(set(CODEC.vocabulary)) == CODEC.size


def test_a_program_survives() -> None:
    text = "def f(xs):\n    ys = [x * x for x in xs if x % 2 == 0]\n    return max(ys, default=0) + -1\n"
    assert CODEC.decode(CODEC.encode(text)) == text


@given(st.lists(st.integers(CODEC.newline, CODEC.size - 1), max_size=40))
def test_text_of_any_tokens_can_be_encoded_to_the_same_text(tokens: list[int]) -> None:
    text = CODEC.decode(tokens)  # ids from the line break on are text: line breaks, indents, pieces, numbers
    assert CODEC.decode(CODEC.encode(text)) == text


@pytest.mark.parametrize("pieces", [("x", "set("), ("n", "i", "x", "set(", "1"), ("xs", "xs")])
def test_a_piece_that_is_the_start_of_a_longer_one(pieces: tuple[str, ...]) -> None:
    text = "".join(pieces)
    assert [CODEC.vocabulary[token] for token in CODEC.encode(text)] == list(pieces)


def test_what_has_no_token_is_named() -> None:
    with pytest.raises(InputError, match="no token fits at '@lru_cache'"):
        CODEC.encode("return @lru_cache")


@pytest.mark.parametrize(
    ("report", "tokens", "text"),
    [
        (TestReport(0), "<ok>", "OK"),
        (TestReport(1, Case(([1, 2],), 3), None, "ZeroDivisionError"), "<err>", "ERR ZeroDivisionError"),
        (
            TestReport(2, Case(([1, -2],), 3), 7),
            "<fail>2<args>1-2<got>7<expected>3<end>",
            "FAIL 2: f([1, -2]) gave 7, expected 3",
        ),
        (
            TestReport(1, Case((5, 6), 61), [1] * 9),
            "<fail>1<args>56<got><big><expected><big><end>",
            "FAIL 1: f(5, 6) gave [1, 1, 1, 1, 1, 1, 1, 1, 1], expected 61",
        ),
        (
            TestReport(1, Case((5,), 1), "no"),
            "<fail>1<args>5<got><other><expected>1<end>",
            "FAIL 1: f(5) gave 'no', expected 1",
        ),
    ],
)
def test_reports(report: TestReport, tokens: str, text: str) -> None:
    assert CODEC.decode(CODEC.encode_report(report)) == tokens
    assert report.text() == text


def test_unknown_spec_word_is_named() -> None:
    with pytest.raises(InputError, match="@nothing"):
        CODEC.encode_spec(("@list", "@nothing", "@pad", "@pad", "@pad"))
