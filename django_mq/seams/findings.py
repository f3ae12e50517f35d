"""A finding of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial


class Level(Enum):
    OK = "ok"
    #: Perhaps it is meant to be so.
    NOTICE = "notice"
    #: Messages are late, lost or cannot be taken until it is mended.
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was found, and how to mend it."""

    level: Level
    about: str
    sentence: str
    mend: str = ""


ok = partial(Finding, Level.OK)
notice = partial(Finding, Level.NOTICE)
problem = partial(Finding, Level.PROBLEM)
