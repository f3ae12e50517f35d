"""A finding of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


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
    #: The message that it is about: the admin links to its page.
    message_id: UUID | None = None


ok = partial(Finding, Level.OK)
notice = partial(Finding, Level.NOTICE)
problem = partial(Finding, Level.PROBLEM)
