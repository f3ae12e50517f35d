"""From what was claimed to the pool: best first, queues in turn, never more than a consumer's credit."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.prefetch import Dispatcher, Prefetch, prefetch_of
from django_mq.engine.decisions.credit import WindowCredit
from tests.delivery.builders import a_claimed, a_handler, a_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.stores.records import Claimed


def begin(message: Claimed, handler: Handler, receipt: Any) -> Delivery:
    return Delivery(message, handler, a_policy(name=message.queue_name), receipt=receipt)


def a_dispatcher(**allowed: int) -> Dispatcher:
    """One handler per queue, with its credit."""
    return Dispatcher(Prefetch([a_handler(queue=name, credit=credit)], begin) for name, credit in allowed.items())


def handlers_of_one_queue(*wanted: tuple[str, int, int]) -> Dispatcher:
    """A dispatcher of handlers of one queue, each with its name, its priority and its credit."""
    handlers = [a_handler(a_function(name), priority=priority, credit=credit) for name, priority, credit in wanted]
    return Dispatcher(prefetch_of(handlers, begin))


def a_function(name: str) -> Any:
    def handle(message: object) -> None:
        """Do nothing."""

    handle.__qualname__ = name
    return handle


def served(attempts: Iterable[Delivery]) -> list[str]:
    """The names of the handlers, in order."""
    return [attempt.handler.name.rpartition(".")[2] for attempt in attempts]


def drain(dispatcher: Dispatcher) -> list[Delivery]:
    return list(iter(dispatcher.next_attempt, None))


def test_the_most_urgent_message_goes_first_whatever_its_queue() -> None:
    dispatcher = a_dispatcher(orders=9, mails=9)
    for queue, priority in (("orders", 1), ("mails", 5), ("orders", 9), ("mails", 3)):
        dispatcher.offer([a_claimed(queue_name=queue, priority=priority)])

    assert [attempt.claimed.priority for attempt in drain(dispatcher)] == [9, 5, 3, 1]


def test_queues_with_equally_urgent_heads_take_turns() -> None:
    dispatcher = a_dispatcher(orders=9, mails=9)
    dispatcher.offer([a_claimed(queue_name=queue) for queue in ("orders",) * 3 + ("mails",) * 3])

    order = [attempt.claimed.queue_name for attempt in drain(dispatcher)]

    assert order == ["orders", "mails"] * 3


def test_within_a_queue_place_and_arrival_decide() -> None:
    dispatcher = a_dispatcher(orders=9)
    late, early, due = a_claimed(id=20), a_claimed(id=10), a_claimed(id=30, place=-5)
    dispatcher.offer([late, early, due])

    assert [attempt.claimed.id for attempt in drain(dispatcher)] == [30, 10, 20]


def test_nobody_is_delivered_more_than_his_credit() -> None:
    dispatcher = a_dispatcher(orders=2, mails=1)
    dispatcher.offer([a_claimed(queue_name=queue) for queue in ("orders",) * 4 + ("mails",) * 4])

    delivered = drain(dispatcher)

    assert sorted(attempt.claimed.queue_name for attempt in delivered) == ["mails", "orders", "orders"]


def test_credit_comes_back_with_the_outcome() -> None:
    dispatcher = a_dispatcher(orders=1)
    dispatcher.offer([a_claimed(), a_claimed()])
    (first,) = drain(dispatcher)

    dispatcher.finish(first)

    assert len(drain(dispatcher)) == 1


def test_of_each_queue_as_much_is_asked_for_as_its_consumer_has_credit() -> None:
    dispatcher = a_dispatcher(orders=5, mails=2)
    assert dispatcher.wanted() == {"orders": 5, "mails": 2}

    dispatcher.offer([a_claimed(queue_name="mails"), a_claimed(queue_name="mails")])

    assert dispatcher.wanted() == {"orders": 5}


def test_whoever_is_full_is_not_hungry() -> None:
    dispatcher = a_dispatcher(orders=1)
    dispatcher.offer([a_claimed()])

    assert dispatcher.wanted() == {}


def test_what_was_never_delivered_can_be_taken_out() -> None:
    dispatcher = a_dispatcher(orders=1)
    begun, waiting = a_claimed(id=1), a_claimed(id=2)
    dispatcher.offer([begun, waiting])
    dispatcher.next_attempt()

    assert dispatcher.empty() == [waiting]
    assert dispatcher.next_attempt() is None


def test_the_operator_sees_who_is_busy() -> None:
    dispatcher = a_dispatcher(orders=1, mails=1)
    dispatcher.offer([a_claimed()])
    dispatcher.next_attempt()

    seen = {info.queue_name: (info.state, info.credit_used, info.delivered) for info in dispatcher.describe()}

    assert seen == {"orders": ("busy", 1, 1), "mails": ("interested", 0, 0)}


@given(
    allowed=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    steps=st.lists(st.tuples(st.sampled_from(["orders", "mails"]), st.integers(0, 9), st.booleans()), max_size=40),
)
def test_whatever_happens_credit_is_kept_and_nothing_is_lost(
    allowed: tuple[int, int], steps: list[tuple[str, int, bool]]
) -> None:
    limits = {"orders": allowed[0], "mails": allowed[1]}
    dispatcher = a_dispatcher(**limits)
    offered, out, finished = 0, [], 0
    for queue, priority, deliver in steps:
        dispatcher.offer([a_claimed(queue_name=queue, priority=priority)])
        offered += 1
        if deliver:
            out.extend(drain(dispatcher))
        elif out:
            dispatcher.finish(out.pop())
            finished += 1
        for name, limit in limits.items():
            assert sum(attempt.claimed.queue_name == name for attempt in out) <= limit

    assert offered == finished + len(out) + len(dispatcher.empty())


def test_less_credit_lets_fewer_begin_and_its_own_credit_comes_back() -> None:
    dispatcher = a_dispatcher(orders=4)
    dispatcher.offer([a_claimed() for _ in range(6)])

    dispatcher.resize(1)
    assert (len(drain(dispatcher)), dispatcher.credit()) == (1, 1)

    dispatcher.resize(None)
    assert (len(drain(dispatcher)), dispatcher.credit()) == (3, 4)


def test_a_message_that_begins_while_credit_is_counted_leaves_no_credit_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dispatcher = a_dispatcher(orders=4)
    dispatcher.offer([a_claimed(), a_claimed()])
    read = WindowCredit.free.__get__
    slot = Thread(target=dispatcher.next_attempt)

    def read_as_a_slot_takes_one(credit: WindowCredit) -> int | None:
        free: int | None = read(credit)
        if slot.ident is None:
            slot.start()
            slot.join(0.05)  # it has to wait until credit is counted
        return free

    monkeypatch.setattr(WindowCredit, "free", property(read_as_a_slot_takes_one))

    assert dispatcher.wanted() == {"orders": 2}

    slot.join()
    assert dispatcher.wanted() == {"orders": 2}


def test_what_is_taken_out_stands_in_the_order_of_the_queue() -> None:
    dispatcher = a_dispatcher(orders=9)
    late, urgent, early = a_claimed(id=20), a_claimed(id=30, priority=9), a_claimed(id=10)
    dispatcher.offer([late, urgent, early])

    assert dispatcher.empty() == [urgent, early, late]


def test_a_better_handler_of_the_queue_is_served_first_and_the_other_gets_the_rest() -> None:
    dispatcher = handlers_of_one_queue(("usual", 0, 9), ("better", 5, 2))
    dispatcher.offer([a_claimed() for _ in range(4)])

    begun = drain(dispatcher)
    assert served(begun) == ["better", "better", "usual", "usual"]

    dispatcher.finish(begun[0])
    dispatcher.offer([a_claimed(), a_claimed()])
    assert served(drain(dispatcher)) == ["better", "usual"]


def test_handlers_of_equal_priority_take_turns() -> None:
    dispatcher = handlers_of_one_queue(("one", 0, 9), ("other", 0, 9))
    dispatcher.offer([a_claimed() for _ in range(4)])

    assert served(drain(dispatcher)) == ["one", "other", "one", "other"]


def test_as_much_is_asked_for_as_the_handlers_of_a_queue_have_credit_together() -> None:
    dispatcher = handlers_of_one_queue(("one", 0, 3), ("other", 1, 4))
    dispatcher.offer([a_claimed()])
    dispatcher.next_attempt()

    assert (dispatcher.wanted(), dispatcher.credit()) == ({"orders": 6}, 7)


def test_the_operator_sees_each_handler_of_a_queue() -> None:
    dispatcher = handlers_of_one_queue(("one", 0, 3), ("other", 1, 1))
    dispatcher.offer([a_claimed()])
    dispatcher.next_attempt()

    seen = [(info.priority, info.state, info.credit_used, info.delivered) for info in dispatcher.describe()]

    assert seen == [(0, "interested", 0, 0), (1, "busy", 1, 1)]


def a_group(dispatcher: Dispatcher, *steps: int, group: str = "a") -> list[Claimed]:
    """Offer messages of one group, by their row ids; return those that are refused."""
    return dispatcher.offer([a_claimed(id=step, group_key=group) for step in steps], {"orders"})


def test_messages_of_a_group_run_one_after_the_other_in_order() -> None:
    dispatcher = a_dispatcher(orders=9)
    a_group(dispatcher, 2, 4, 3)
    a_group(dispatcher, 5, 6, group="b")
    dispatcher.offer([a_claimed(id=7), a_claimed(id=8)], {"orders"})
    seen, behind = [], [dispatcher.behind]

    while begun := drain(dispatcher):
        seen.append([attempt.claimed.id for attempt in begun])
        for attempt in begun:
            dispatcher.finish(attempt)
        behind.append(dispatcher.behind)

    assert (seen, behind) == ([[2, 5, 7, 8], [3, 6], [4]], [3, 1, 0, 0])


def test_without_groups_the_group_key_does_not_matter() -> None:
    dispatcher = a_dispatcher(orders=9)

    dispatcher.offer([a_claimed(id=step, group_key="a") for step in (1, 2)])

    assert len(drain(dispatcher)) == 2


def test_what_waits_behind_others_of_its_group_takes_credit_and_can_be_taken_out() -> None:
    dispatcher = a_dispatcher(orders=4)
    a_group(dispatcher, 1, 2, 3)
    dispatcher.next_attempt()

    assert dispatcher.wanted() == {"orders": 1}
    assert [message.id for message in dispatcher.empty()] == [2, 3]
    assert dispatcher.wanted() == {"orders": 3}


def test_a_message_that_goes_back_takes_along_what_is_behind_it_until_all_are_back() -> None:
    dispatcher = a_dispatcher(orders=9)
    a_group(dispatcher, 1, 2, 3)
    a_group(dispatcher, 7, group="b")
    failed, other = drain(dispatcher)

    behind = dispatcher.close_group(failed.claimed)
    dispatcher.finish(failed)
    late = a_group(dispatcher, 4)  # of a claim that has not seen the settlement
    held = {(message.id, message.claim) for message in (failed.claimed, *behind, *late)}

    assert ([each.id for each in behind], [each.id for each in late], drain(dispatcher)) == ([2, 3], [4], [])
    for receipt in sorted(held):
        dispatcher.open_groups(held)
        assert dispatcher.has_closed_groups
        held.remove(receipt)
    dispatcher.open_groups(held)
    assert not dispatcher.has_closed_groups
    assert a_group(dispatcher, 1, 2) == []
    assert [attempt.claimed.id for attempt in drain(dispatcher)] == [1]
    dispatcher.finish(other)


def test_what_has_not_begun_of_a_queue_is_taken_back_with_its_groups_and_comes_again_in_order() -> None:
    dispatcher = a_dispatcher(orders=9)
    a_group(dispatcher, 1, 2, 3)
    begun = dispatcher.next_attempt()
    a_group(dispatcher, 5, 6, group="b")
    dispatcher.offer([a_claimed(id=7)], {"orders"})
    assert begun is not None

    taken = dispatcher.take_all_back("orders")

    assert sorted(message.id for message in taken) == [2, 3, 5, 6, 7]
    assert (dispatcher.waiting(), dispatcher.behind, drain(dispatcher)) == ({}, 0, [])
    assert [message.id for message in a_group(dispatcher, 2)] == [2]  # the others are not back
    dispatcher.open_groups(set())
    assert a_group(dispatcher, 2, 3) == a_group(dispatcher, 5, 6, group="b") == []
    assert [attempt.claimed.id for attempt in drain(dispatcher)] == [5]  # the first of the other group still runs
    dispatcher.finish(begun)
    assert [attempt.claimed.id for attempt in drain(dispatcher)] == [2]


def test_a_group_that_has_not_begun_is_taken_back_as_a_whole() -> None:
    dispatcher = a_dispatcher(orders=9)
    a_group(dispatcher, 1, 2)
    a_group(dispatcher, 5, 6, group="b")
    begun = dispatcher.next_attempt()
    assert begun is not None
    waiting = dispatcher.waiting()["orders"]

    taken = [dispatcher.take_back(message) for message in (begun.claimed, *waiting)]

    assert [[message.id for message in messages] for messages in taken] == [[], [5, 6]]
    assert ([message.id for message in a_group(dispatcher, 5, group="b")], dispatcher.behind) == ([5], 1)
    dispatcher.open_groups(set())
    a_group(dispatcher, 5, 6, group="b")
    assert [attempt.claimed.id for attempt in drain(dispatcher)] == [5]


def test_bytes_of_messages_behind_others_of_their_group_count_once() -> None:
    handler = replace(a_handler(), credit_bytes=100)
    dispatcher = Dispatcher(prefetch_of([handler], begin))
    for step in (1, 2, 3, 4):
        dispatcher.offer([a_claimed(id=step, group_key="a", body=b"x" * 10)], {"orders"})
    held = [dispatcher.byte_credit()["orders"].held]

    first = dispatcher.next_attempt()
    assert first is not None
    dispatcher.finish(first)
    held.append(dispatcher.byte_credit()["orders"].held)
    second = dispatcher.next_attempt()
    assert second is not None
    dispatcher.close_group(second.claimed)
    held.append(dispatcher.byte_credit()["orders"].held)
    dispatcher.finish(second)
    dispatcher.empty()

    assert [*held, dispatcher.byte_credit()["orders"].held] == [40, 30, 10, 0]


# Selectors


def by_selectors(*selectors: str) -> tuple[Dispatcher, list[Claimed]]:
    """A dispatcher of handlers with these selectors, with messages of the sizes 1 to 3, not in order."""
    handlers = [a_handler(a_function(text), selector=text) for text in selectors]
    dispatcher = Dispatcher(prefetch_of(handlers, begin))
    messages = [a_claimed(place=size, headers=f'{{"size": {size}}}') for size in (1, 2, 3)]
    assert dispatcher.offer([messages[1], messages[2], messages[0]]) == []
    return dispatcher, messages


def test_what_waits_for_several_selectors_is_one_line() -> None:
    dispatcher, messages = by_selectors("size = 2", "")

    assert dispatcher.waiting() == {"orders": messages}


def test_a_message_is_taken_back_from_the_handler_that_wants_it() -> None:
    dispatcher, messages = by_selectors("size = 2", "")

    assert [dispatcher.take_back(message) for message in (messages[1], messages[2], messages[1])] == [
        [messages[1]],
        [messages[2]],
        [],
    ]
    assert [attempt.claimed for attempt in drain(dispatcher)] == [messages[0]]


def test_a_declined_message_stands_in_its_place_for_the_handlers_that_have_not_declined_it() -> None:
    dispatcher = handlers_of_one_queue(("best", 2, 1), ("better", 1, 1), ("usual", 0, 1))
    first, second = a_claimed(id=1), a_claimed(id=2)
    dispatcher.offer([first, second])
    [declined, accepted] = drain(dispatcher)

    assert dispatcher.hand_on(declined)
    dispatcher.finish(accepted)
    dispatcher.offer([third := a_claimed(id=3)])
    again = drain(dispatcher)

    assert [(*served([each]), each.claimed) for each in again] == [("best", third), ("better", first)]
    assert dispatcher.hand_on(again[1])
    [last] = drain(dispatcher)
    assert (*served([last]), last.claimed) == ("usual", first)
    assert not dispatcher.hand_on(last)
    dispatcher.finish(last)
    assert dispatcher.wanted() == {"orders": 2}


def test_a_declined_message_passes_the_handlers_that_do_not_want_it() -> None:
    dispatcher, messages = by_selectors("size = 2", "size = 3", "size < 3")
    [declined] = [attempt for attempt in drain(dispatcher) if attempt.handler.selector == "size = 2"]

    assert dispatcher.hand_on(declined)
    [again] = drain(dispatcher)
    assert (again.claimed, again.handler.selector) == (messages[1], "size < 3")
    assert not dispatcher.hand_on(again)
