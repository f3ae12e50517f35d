"""The transitions of a worker's session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_mq.engine.decisions.session import (
    TRANSITIONS,
    SessionEvent,
    SessionRecord,
    SessionState,
    after,
    revival,
)
from django_mq.errors import IllegalMove

S, E = SessionState, SessionEvent


@pytest.mark.parametrize("state", SessionState)
@pytest.mark.parametrize("event", SessionEvent)
def test_a_session_makes_the_transitions_of_the_table_and_no_other(
    state: SessionState, event: SessionEvent
) -> None:
    record = SessionRecord(state=state, id=7)
    if (state, event) not in TRANSITIONS:
        with pytest.raises(IllegalMove, match=f"{state} cannot be {event}"):
            after(record, event)
        return

    changed, consequences = after(record, event)

    assert (changed.state, consequences) == TRANSITIONS[state, event]
    assert (changed.id is None) is (event in (E.CLOSED, E.REPLACED))
    assert changed.revivals == int(event in (E.KEPT, E.ROBBED, E.REPLACED))
    assert changed.retired is (event is E.RETIRED)


def test_a_retired_session_stays_retired_whatever_happens() -> None:
    record = SessionRecord(state=S.OPEN, retired=True)

    for event in (E.OVERDUE, E.MISSED, E.KEPT, E.RENEWED, E.CLOSED):
        record, _ = after(record, event)
        assert record.retired


@pytest.mark.parametrize(
    ("state", "seconds", "begins"),
    [
        (S.NEW, 1e9, True),  # it has no message
        (S.OPEN, 14.9, True),
        (S.OPEN, 15.0, False),
        (S.UNCERTAIN, 0.0, False),
        (S.MISSING, 0.0, False),
        (S.LOST, 0.0, False),
        (S.CLOSED, 0.0, False),
    ],
)
def test_messages_begin_while_no_other_session_can_have_them(
    state: SessionState, seconds: float, begins: bool
) -> None:
    record = SessionRecord(state=state, confirmed_at=100.0)

    assert record.may_begin(100.0 + seconds, 15.0) is begins


def test_what_was_claimed_before_a_revival_is_not_held_after_it_unless_the_session_is_lost() -> None:
    record = SessionRecord(state=S.OPEN, revivals=1)

    assert (record.is_revived_since(0), record.may_hold(0)) == (True, False)
    assert (record.is_revived_since(1), record.may_hold(1)) == (False, True)
    assert replace(record, state=S.LOST).may_hold(0)


HELD = frozenset({(1, 10), (2, 20)})


@pytest.mark.parametrize(
    ("kept", "was_unanswered", "constrained", "event", "gone"),
    [
        ({1, 2}, False, False, E.KEPT, set()),
        ({1, 2}, True, False, E.KEPT, set()),
        ({1}, False, False, E.ROBBED, {(2, 20)}),
        ({1, 2}, False, True, E.ROBBED, set()),  # another session may have the slot or the group
        (None, False, False, E.REPLACED, HELD),
        (None, True, False, E.ROBBED, set()),  # what the revival without an answer has kept is unknown
    ],
)
def test_the_answer_to_a_revival_says_which_messages_are_gone(
    kept: set[int] | None, was_unanswered: bool, constrained: bool, event: SessionEvent, gone: set[tuple[int, int]]
) -> None:
    answer = revival(HELD, kept, was_unanswered=was_unanswered, constrained=constrained)

    assert answer == (event, gone)
