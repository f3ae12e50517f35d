"""One finding of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    #: Meant that way, perhaps; worth knowing in any case.
    NOTICE = "notice"
    #: Messages are late, lost sight of, or cannot be taken until it is mended.
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was found, and how to mend it."""

    level: Level
    about: str
    sentence: str
    mend: str = ""


def ok(about: str, sentence: str) -> Finding:
    return Finding(Level.OK, about, sentence)


def notice(about: str, sentence: str, mend: str) -> Finding:
    return Finding(Level.NOTICE, about, sentence, mend)


def problem(about: str, sentence: str, mend: str) -> Finding:
    return Finding(Level.PROBLEM, about, sentence, mend)
