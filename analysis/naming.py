"""Names of variants as people read them: without the words that all variants of a sweep share."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def shared_words(labels: Sequence[str]) -> list[str]:
    """Words that every label has, in the order of the first; none for a single label."""
    words = [label.split() for label in labels]
    if len(words) < 2:
        return []
    common = set.intersection(*map(set, words))
    return list(dict.fromkeys(word for word in words[0] if word in common))


def own_names(labels: Iterable[str]) -> dict[str, str]:
    """Label -> its words that some other label lacks; its first word if there are none.

    Labels that differ in nothing else (only in the order of shared words, or in blanks) stay whole, all.
    """
    labels = list(labels)
    shared = set(shared_words(labels))
    if not shared:
        return {label: label for label in labels}
    words = {label: label.split() for label in labels}
    found = {
        label: " ".join([word for word in words[label] if word not in shared] or words[label][:1])
        for label in labels
    }
    return found if len(set(found.values())) == len(set(labels)) else {label: label for label in labels}


def left_out(labels: Iterable[str]) -> list[str]:
    """Words of labels that their own names lack, all the same ones."""
    labels = list(labels)
    return shared_words(labels) if any(name != label for label, name in own_names(labels).items()) else []


def shortened(section: Mapping[str, Any]) -> dict[str, Any]:
    """One sweep of a report tree with own names for labels, wherever they stand.

    The tree of ``report.json`` keeps whole labels: this is for pages and figures.
    """
    own = own_names([variant["label"] for variant in section["variants"]])
    names = {_inside(label): _inside(name) for label, name in own.items() if name != label}
    if not names:
        return dict(section)
    longest_first = sorted(names, key=lambda label: (-len(label), label))
    pattern = re.compile(rf"(?<![\w=.])(?:{'|'.join(map(re.escape, longest_first))})(?![\w=.-])")
    kept = {key: section[key] for key in ("name", "question", "left_out")}
    text = json.dumps({key: value for key, value in section.items() if key not in kept})
    result: dict[str, Any] = json.loads(pattern.sub(lambda match: names[match[0]], text))
    return {key: kept.get(key, result.get(key)) for key in section}


def shortened_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A report tree as pages and figures show it."""
    return {**tree, "sweeps": [shortened(section) for section in tree["sweeps"]]}


def _inside(text: str) -> str:
    """Text as it stands inside a JSON string."""
    return json.dumps(text)[1:-1]


def compact(names: Sequence[str]) -> list[str]:
    """Names without what can be guessed: the key that most words have, and paths of other keys.

    ``gagar grader=agentic_s`` becomes ``gagar agentic_s``; a number keeps its key. Names stay as they are if
    two would become equal.
    """
    pairs = [word.split("=", 1) for name in names for word in name.split() if "=" in word]
    common = Counter(key for key, _ in pairs).most_common(1)
    usual = common[0][0] if common and common[0][1] > 1 else None
    found = [" ".join(_bare(word, usual) for word in name.split()) for name in names]
    return found if len(set(found)) == len(set(names)) else list(names)


def _bare(word: str, usual: str | None) -> str:
    key, equals, value = word.partition("=")
    if not equals:
        return word
    if key == usual and value[:1].isalpha() and value not in ("true", "false", "none", "null"):
        return value
    return f"{key.rsplit('.', 1)[-1]}={value}"


def fitted(text: str, width: int, lines: int) -> str:
    """At most ``lines`` lines of ``width`` letters: broken at blanks or after ``=``, else cut."""
    pieces = [piece for piece in re.split(r"(?<==)|(?<= )", text) if piece]
    found = [""]
    for piece in pieces:
        if len((found[-1] + piece).rstrip()) <= width or not found[-1]:
            found[-1] += piece
        else:
            found.append(piece)
    found = [line.rstrip() for line in found]
    if len(found) <= lines and max(map(len, found)) <= width:
        return "\n".join(found)
    whole = _middle(text, width * lines)
    return "\n".join(whole[i : i + width] for i in range(0, len(whole), width))


def _middle(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"
