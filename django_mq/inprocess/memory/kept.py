"""What a broker keeps of runs whose messages are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from django_mq.engine.decisions.ends import Ended


class KnownRun(NamedTuple):
    """A run of a session, with what is told when it ends, and to which listenings."""

    claim: int
    session: int
    told_to: str | None
    ended: Ended
