"""From what was claimed to the pool: best first, queues in turn, never more than a consumer's credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from django_mq.delivery.prefetch import Dispatcher
from tests.delivery.builders import a_claimed, a_handler, a_policy

if TYPE_CHECKING:
    from django_mq.delivery.executing import Attempt


def a_dispatcher(**allowed: int) -> Dispatcher:
    """One consumer per queue, with its credit."""
    handlers = [a_handler(queue=name, credit=credit) for name, credit in allowed.items()]
    return Dispatcher(handlers, lambda name: a_policy(name=name))


def drain(dispatcher: Dispatcher) -> list[Attempt]:
    return list(iter(dispatcher.next_attempt, None))


def test_the_most_urgent_message_goes_first_whatever_its_queue() -> None:
    dispatcher = a_dispatcher(orders=9, mails=9)
    for queue, priority in (("orders", 1), ("mails", 5), ("orders", 9), ("mails", 3)):
        dispatcher.offer([a_claimed(queue_name=queue, priority=priority)])

    assert [attempt.claimed.priority for attempt in drain(dispatcher)] == [9, 5, 3, 1]


def test_queues_with_equally_urgent_heads_take_turns() -> None:
    dispatcher = a_dispatcher(orders=9, mails=9)
    dispatcher.offer([a_claimed(queue_name=queue) for queue in ("orders",) * 3 + ("mails",) * 3])

    served = [attempt.claimed.queue_name for attempt in drain(dispatcher)]

    assert served == ["orders", "mails"] * 3


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
    assert dispatcher.hungry() == {"orders": 5, "mails": 2}

    dispatcher.offer([a_claimed(queue_name="mails"), a_claimed(queue_name="mails")])

    assert dispatcher.hungry() == {"orders": 5}


def test_whoever_is_full_is_not_hungry() -> None:
    dispatcher = a_dispatcher(orders=1)
    dispatcher.offer([a_claimed()])

    assert dispatcher.hungry() == {}


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
