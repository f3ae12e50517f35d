"""What a verb of an operator returns: what has become of each message, so that the next verb can go on with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from tests.stores.builders import a_message, claim, declare, open_session, publish, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.base import Store
    from django_mq.stores.records import Moved

EVERY = [state.value for state in (State.SCHEDULED, State.READY, State.CLAIMED, State.DEAD)]
LATER = datetime(2041, 1, 1, tzinfo=UTC)

#: Each verb with the state of the messages that it changes.
VERBS: list[tuple[str, State, Callable[[Store, list[int]], list[Moved]]]] = [
    ("release", State.CLAIMED, lambda store, ids: store.operations.release_held(ids)),
    ("move", State.READY, lambda store, ids: store.operations.move(ids, "plain")),
    ("move by rules", State.READY, lambda store, ids: store.operations.move(ids, "limited")),
    ("deliver now", State.SCHEDULED, lambda store, ids: store.operations.deliver_now(ids)),
    ("reschedule", State.READY, lambda store, ids: store.operations.reschedule(ids, LATER)),
    ("prioritise", State.READY, lambda store, ids: store.operations.prioritise(ids, 9)),
    ("redrive", State.DEAD, lambda store, ids: store.operations.redrive(ids)),
]
TARGETS = {"move": "plain", "move by rules": "limited"}


def three_in(store: Store, state: State, queue: str = "orders") -> list[int]:
    """Put three messages in a state into a queue."""
    published = [publish(store, queue, delay_seconds=60 if state is State.SCHEDULED else None) for _ in range(3)]
    if state in (State.CLAIMED, State.DEAD):
        session = open_session(store)
        for message in claim(store, session, queue):
            if state is State.DEAD:
                settle(store, session, message, Verdict.DEAD, reason="bad")
    return published


def where(store: Store, queue: str) -> dict[int, str]:
    """Return the message id of each row."""
    return {item.id: item.message_id.hex for item in store.browser.browse(queue, states=EVERY)}


def test_a_verb_says_what_has_become_of_each_message_that_it_changed(store: Store) -> None:
    declare(store, "plain")
    declare(store, "limited", max_messages=100)
    for verb, state, act in VERBS:
        source, target = declare(store, f"of {verb}"), TARGETS.get(verb, f"of {verb}")
        published = three_in(store, state, source)
        before = where(store, source)

        moved = act(store, [*published[:2], 10**9])

        assert sorted(each.id for each in moved) == published[:2], verb
        assert {each.queue for each in moved} == {target}, verb
        after = where(store, target)
        assert [before[each.id] for each in moved] == [after[each.new_id] for each in moved if each.new_id], verb
        assert act(store, [10**9]) == [], verb


def test_verbs_compose_by_what_they_return(store: Store, orders: str) -> None:
    """A dead letter, in place or in another queue, is tried again at its origin in an hour."""
    declare(store, "failures")
    published = three_in(store, State.DEAD)
    elsewhere = [each.new_id for each in store.operations.move(published[:1], "failures")]

    with store.database.transaction():
        moved = store.operations.move(elsewhere, orders) + store.operations.redrive(published[1:])
        later = store.operations.reschedule(
            [each.new_id for each in moved], datetime.now(UTC) + timedelta(hours=1)
        )

    counts = store.queues.counts()
    assert (len(moved), len(later), counts[orders].scheduled, counts["failures"].total) == (3, 3, 3, 0)


def test_a_value_that_another_one_replaces_at_once_is_gone(store: Store) -> None:
    declare(store, "prices", kind="last_value", last_value_key="sku")
    made = {"headers": '{"sku": "pear"}'}
    values = [a_message("prices", delay_seconds=delay, **made) for delay in (60, 120)]
    [first, second] = [number for value in values for number in store.admission.append([value])]

    moved = {each.id: each.new_id for each in store.operations.deliver_now([first, second])}

    [left] = store.browser.browse("prices", states=EVERY)
    assert moved == {first: None, second: left.id}
