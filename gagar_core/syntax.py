"""Parsing programs that a policy wrote: their oddities must not become warnings of ours."""

from __future__ import annotations

import ast
import warnings


def parse(source: str) -> ast.Module:
    """The syntax tree; raises ``SyntaxError``, ``ValueError``, ``RecursionError`` or ``MemoryError``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for instance "invalid decimal literal" in ``1if n else 2``
        return ast.parse(source)
