"""Which failures are alike: those of one exception, at one place, whose texts differ in values only."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The most characters of a text that are compared, and that are kept of it.
READ, KEPT = 1_000, 300
#: The most characters of a place.
PLACE_LENGTH = 255
#: A quoted text that is longer is a value, and no name.
NAME_LENGTH = 40

#: A frame, also of a group of exceptions, whose lines begin with marks.
FRAME = re.compile(r'^[ |+-]*File "([^"\n]+)", line \d+(?:, in ([^\n]+))?', re.MULTILINE)
BEGIN = "Traceback (most recent call last):"
#: Files of Python itself, and of packages that are installed.
INSTALLED = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python\d[^/\\]*)[/\\]|^<frozen ")

#: What is a value wherever it stands, in the order in which it is replaced.
VALUES = (
    (re.compile(r"\b[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\bhttps?://[^\s'\"<>]+"), "<url>"),
    (re.compile(r"[^\s'\"<>@(),;:]{1,64}@[^\s'\"<>@(),;:]{1,255}"), "<email>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b"), "<hex>"),
)
QUOTED = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")
NUMBER = re.compile(r"\d+(?:[.,:_-]\d+)*")


class Fingerprint(NamedTuple):
    """What alike failures have in common."""

    key: str
    place: str
    text: str


def fingerprint(error: str, text: str, traceback: str) -> Fingerprint:
    """Return what a failure has in common with those that are alike.

    >>> fingerprint("KeyError", "order 4711 of 'a@b.example' is gone", "").text
    'order <n> of <text> is gone'
    """
    place, words = place_of(traceback), normalised(text)
    whole = f"{error}\0{place}\0{words}".encode("utf-8", "surrogatepass")
    return Fingerprint(sha256(whole).hexdigest()[:32], place, words)


def place_of(traceback: str) -> str:
    """Return the file and the function in which an exception was raised; blank if the traceback names none.

    It is the innermost frame of the project. The line does not count, because each deploy moves lines, and so do
    the folders of a deploy: of a path, the last two parts count.
    """
    frames = FRAME.findall(traceback[traceback.rfind(BEGIN) + 1 :])
    if not frames:
        return ""
    own = [frame for frame in frames if not INSTALLED.search(frame[0])]
    path, function = (own or frames)[-1]
    short = "/".join(path.replace("\\", "/").rsplit("/", 2)[-2:])
    return (f"{short} in {function}" if function else short)[:PLACE_LENGTH]


def normalised(text: str) -> str:
    """Return the first line of a text without its values: ids, numbers, addresses and quoted values."""
    line = next((line for line in text[:READ].splitlines() if line.strip()), "")
    for pattern, word in VALUES:
        line = pattern.sub(word, line)
    line = NUMBER.sub("<n>", QUOTED.sub(_named, line))
    return " ".join(line.split())[:KEPT]


def _named(quoted: re.Match[str]) -> str:
    """Return a quoted name as it is; a value has digits or marks, or is long."""
    words = quoted[1] if quoted[1] is not None else quoted[2]
    is_value = len(words) > NAME_LENGTH or "<" in words or any(letter.isdigit() for letter in words)
    return "<text>" if is_value else quoted[0]


def most_frequent(counted: Mapping[str, int], more: Iterable[str], most: int) -> dict[str, int]:
    """Return how often each name occurs with those that are added; of many names, the most frequent ones."""
    total = dict(counted)
    for name in more:
        total[name] = total.get(name, 0) + 1
    kept = sorted(total, key=lambda name: (-total[name], name))[:most]
    return {name: total[name] for name in kept}
