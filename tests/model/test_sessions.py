"""The model of sessions keeps its promises in every interleaving, and a planted fault breaks one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions import session as rules
from django_mq.engine.decisions.session import NOTHING, SessionEvent, SessionRecord, SessionState
from tests.model import sessions
from tests.model.__main__ import SEARCHES
from tests.model.search import Search
from tests.model.sessions import Row, Sessions, Settled

if TYPE_CHECKING:
    from collections.abc import Callable

#: Two sessions and one message. Each session can stand still once. A heartbeat has its answer at once.
SMALL = Sessions(messages=1, crashes=0, losses=0, failing=False, closing=False, apart=False)


def test_every_interleaving_of_a_small_model_keeps_the_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    made = set()

    def after(record: SessionRecord, event: SessionEvent) -> object:
        made.add((record.state, event))
        return whole(record, event)

    whole = rules.after
    sessions.after.cache_clear()
    monkeypatch.setattr(rules, "after", after)

    found = Search(SMALL).run()

    assert (found.broken, found.path) == ("", [])
    assert found.interleavings > 10**9
    s, e = SessionState, SessionEvent
    assert made >= {
        (s.OPEN, e.OVERDUE),
        (s.UNCERTAIN, e.MISSED),
        (s.UNCERTAIN, e.RENEWED),
        (s.MISSING, e.KEPT),
        (s.MISSING, e.ROBBED),
        (s.LOST, e.RETIRED),
        (s.LOST, e.CLOSED),
    }


@pytest.mark.once
@pytest.mark.parametrize("name", SEARCHES)
def test_every_interleaving_keeps_the_promises(name: str) -> None:
    found = Search(SEARCHES[name]).run()

    assert (found.broken, found.path) == ("", [])


class Unfenced(Sessions):
    """A store that settles by the message's id."""

    def is_fenced(self, row: Row, mine: int, item: Settled) -> bool:
        return row.state is sessions.CLAIMED


class Charging(Sessions):
    """A store that counts the attempt of a suspect twice."""

    def charge(self, row: Row, item: Settled) -> int:
        return int(item.counted)


def unchanged(_: pytest.MonkeyPatch) -> None:
    """The rules stay as they are."""


def forget_a_revival(patch: pytest.MonkeyPatch) -> None:
    """A renewal that succeeds after a revival without an answer makes the session open."""
    patch.setitem(
        rules.TRANSITIONS,
        (SessionState.MISSING, SessionEvent.RENEWED),
        (SessionState.OPEN, NOTHING),  # type: ignore[arg-type]
    )


def hold_everything(patch: pytest.MonkeyPatch) -> None:
    """A session holds what it claimed before it was revived."""
    patch.setattr(SessionRecord, "may_hold", lambda *_: True)


def overlook_revivals(patch: pytest.MonkeyPatch) -> None:
    """A verdict that a revival has overtaken is not written again."""
    patch.setattr(sessions, "_again", lambda *_: ())


def never_doubt(patch: pytest.MonkeyPatch) -> None:
    """A session is certain however long ago it was renewed."""
    patch.setattr(rules, "is_certain", lambda *_: True)


def miss_nothing(patch: pytest.MonkeyPatch) -> None:
    """A session that is revived counts all of its messages as kept, also if the database does not say so."""
    patch.setattr(rules, "revival", lambda *_, **__: rules.Revival(SessionEvent.KEPT, frozenset()))


@pytest.mark.parametrize(
    ("model", "plant", "broken"),
    [
        (SMALL, never_doubt, "begins message 0, which is not its own"),
        (SMALL, miss_nothing, "begins message 0, which is not its own"),
        (SMALL, hold_everything, "begins message 0, which is not its own"),
        (SMALL, overlook_revivals, "message 0 stays claimed"),
        (replace(SMALL, losses=1, stops=1), forget_a_revival, "begins message 0, which is not its own"),
        (replace(SMALL, losses=1, stops=0, resyncs=1), unchanged, "message 0 stays claimed"),
        (Unfenced(**vars(SMALL)), unchanged, "late settlement"),
        (Charging(**vars(replace(SMALL, failing=True))), unchanged, "is charged 2 attempts, and was given 1"),
        (replace(SMALL, shortened=True, stops=1), unchanged, "begins message 0, which is not its own"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_search_finds_a_planted_fault(
    model: Sessions, plant: Callable[[pytest.MonkeyPatch], None], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    sessions.after.cache_clear()
    try:
        found = Search(model).run()
    finally:
        sessions.after.cache_clear()

    assert broken in found.broken
    assert found.path
