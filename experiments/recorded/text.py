"""How recorded text and numbers are written for people. Programs and turns are untrusted."""

from __future__ import annotations

import unicodedata

_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Kinds of characters that steer a terminal, reorder what is read, or cannot be encoded."""


def visible(text: str) -> str:
    """The text with everything that would steer a terminal or hide from a reader written as an escape.

    Line ends stay, tabs become four spaces; letters of all scripts stay as they are.
    """
    if text.isascii() and text.replace("\n", " ").isprintable():
        return text
    return "".join(map(_visible, text.replace("\r\n", "\n").expandtabs(4)))


def _visible(char: str) -> str:
    if char == "\n" or unicodedata.category(char) not in _INVISIBLE:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, width: int = 0) -> str:
    """The visible text on one line, cut to ``width`` characters (0 = not cut)."""
    line = visible(text).replace("\n", " ⏎ ")
    return line if not width or len(line) <= width else line[: width - 1] + "…"


def number(value: float | None) -> str:
    """Four significant digits with a real minus sign; – where there is none."""
    if value is None:
        return "–"
    return f"{value:.4g}".replace("-", "−")


def signed(value: float | None) -> str:
    """The same with its sign, for advantages."""
    if value is None:
        return "–"
    return number(0.0) if value == 0 else f"{value:+.4g}".replace("-", "−")


def share(passed: int | None, of: int | None) -> str:
    """``2/2``; – where it was not recorded."""
    return "–" if passed is None or of is None else f"{passed}/{of}"


def plural(count: int, noun: str) -> str:
    """``1 group``, ``2 groups``; nouns in -y and -ss as English has them."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("ry"):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def verdict(passed: bool, *, lucky: bool, recorded: str | None) -> str:
    """How a candidate fared, with luck named."""
    return "lucky pass" if lucky else recorded or ("pass" if passed else "fail")
