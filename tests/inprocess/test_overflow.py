import pytest

from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.states import Fate, State
from django_mq.errors import ProducerBlocked, QueueFull
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.capacity import Producer
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import drain, names, publish, subscribe


def limited(policy: Overflow, messages: int | None = 2, size_bytes: int | None = None, **rules: object) -> Queue:
    limits = Limits(messages, size_bytes)
    return Queue(rules=Rules(overflow=policy, limits=limits, **rules))  # type: ignore[arg-type]


def take(queue: Queue, consumer: Consumer) -> Entry:
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None
    return entry


# Limits.


def test_exactly_the_limit_is_allowed() -> None:
    limits = Limits(messages=2, size_bytes=10)

    assert not limits.exceeded_by(2, 10)
    assert limits.exceeded_by(3, 0)
    assert limits.exceeded_by(0, 11)


def test_no_limit_is_never_exceeded_and_a_limit_of_nothing_by_anything() -> None:
    assert not Limits().exceeded_by(10**9, 10**12)
    assert Limits(messages=0).exceeded_by(1, 0)


def test_a_share_of_the_limits_is_rounded_up() -> None:
    assert Limits(messages=3, size_bytes=11).share(80) == Limits(messages=3, size_bytes=9)
    assert Limits(messages=1).share(1) == Limits(messages=1)


# Watched only.


def test_limits_that_are_only_watched_keep_nothing_out() -> None:
    queue = limited(Overflow.NONE)
    publish(queue, "1", "2", "3")

    assert len(queue.entries()) == 3


# Rejecting and dropping.


@pytest.mark.parametrize("size", [{"messages": 1, "size_bytes": None}, {"messages": None, "size_bytes": 9}])
def test_a_full_queue_refuses_and_takes_again_when_there_is_room(size: dict[str, int | None]) -> None:
    queue = limited(Overflow.REJECT, **size)
    consumer = subscribe(queue)
    publish(queue, "first", size=9)
    with pytest.raises(QueueFull):
        publish(queue, "second", size=1)

    queue.accept(take(queue, consumer), consumer)

    assert publish(queue, "second", size=1)[0].state is State.READY


def test_what_is_claimed_or_scheduled_takes_room_too() -> None:
    queue = limited(Overflow.REJECT)
    publish(queue, "later", deliver_at=9.0)
    publish(queue, "held")
    take(queue, subscribe(queue))

    with pytest.raises(QueueFull):
        publish(queue, "more")


def test_a_queue_that_drops_says_that_the_message_is_gone() -> None:
    queue = limited(Overflow.DROP, 1)
    [_, dropped] = publish(queue, "kept", "dropped")

    assert dropped.state is State.GONE
    assert names(queue.entries()) == ["kept"]
    assert queue.statistics.enqueued == 1


def test_a_message_that_was_dropped_is_no_duplicate_later() -> None:
    queue = limited(Overflow.DROP, 0)
    assert queue.publish(message(duplicate_id="same"), 0.0).state is State.GONE
    queue.control.change(Rules())

    assert queue.publish(message(duplicate_id="same"), 0.0).state is State.READY


# Rings.


def test_the_oldest_of_the_lowest_level_makes_room() -> None:
    queue = limited(Overflow.RING)
    publish(queue, "high", priority=9)
    publish(queue, "low", priority=1)
    publish(queue, "higher", priority=9)

    assert names(queue.browse()) == ["high", "higher"]
    assert queue.statistics.replaced == 1


def test_the_newcomer_itself_is_never_what_goes() -> None:
    queue = limited(Overflow.RING)
    publish(queue, "first", "second", priority=9)
    publish(queue, "low", priority=0)

    assert names(queue.browse()) == ["second", "low"]


def test_what_a_consumer_holds_fast_is_kept_and_goes_when_it_is_given_back() -> None:
    queue = limited(Overflow.RING, 1)
    consumer = subscribe(queue, messages=1)
    publish(queue, "held")
    held = take(queue, consumer)
    publish(queue, "new")
    assert len(queue.entries()) == 2

    assert queue.release(held, consumer) is Fate.DISCARDED

    assert names(queue.entries()) == ["new"]


def test_what_can_be_stolen_is_stolen_and_its_settlement_is_void() -> None:
    queue = limited(Overflow.RING, 1)
    consumer = subscribe(queue, messages=1, stealable=True)
    publish(queue, "lent")
    lent = take(queue, consumer)

    publish(queue, "new")

    assert names(queue.entries()) == ["new"]
    assert queue.accept(lent, consumer) is Fate.VOID
    assert drain(queue, consumer) == ["new"]  # the credit is back


def test_a_settlement_that_has_begun_is_not_stolen() -> None:
    queue = limited(Overflow.RING, 1)
    consumer = subscribe(queue, stealable=True)
    publish(queue, "lent")
    lent = take(queue, consumer)
    assert queue.begin_settle(lent, consumer)

    publish(queue, "new")

    assert queue.accept(lent, consumer) is Fate.ACCEPTED


def test_smaller_limits_are_kept_at_once() -> None:
    queue = limited(Overflow.RING, 3)
    publish(queue, "1", "2", "3")

    queue.control.change(Rules(overflow=Overflow.RING, limits=Limits(messages=1)))

    assert names(queue.browse()) == ["3"]


def test_bytes_are_a_limit_of_their_own() -> None:
    queue = limited(Overflow.RING, None, size_bytes=10)
    publish(queue, "a", "b", size=4)
    publish(queue, "c", size=8)

    assert names(queue.browse()) == ["c"]


# Flow.


def test_a_producer_that_fills_the_queue_waits_until_it_has_been_emptied_a_little() -> None:
    resumed: list[Producer] = []
    queue, producer = limited(Overflow.FLOW, 5, resume_percent=60), Producer("p", resumed.append)
    consumer = subscribe(queue)
    for number in range(6):
        queue.publish(message(str(number)), 0.0, producer=producer)
    assert (queue.flow_stopped, producer.blocked) == (True, True)
    with pytest.raises(ProducerBlocked):
        queue.publish(message("more"), 0.0, producer=producer)

    held = [take(queue, consumer) for _ in range(3)]
    for entry in held[:2]:
        queue.accept(entry, consumer)
    assert (producer.blocked, resumed) == (True, [])
    queue.accept(held[2], consumer)

    assert (producer.blocked, resumed, queue.flow_stopped) == (False, [producer], False)


def test_a_producer_waits_for_every_queue_it_has_filled() -> None:
    one, other = limited(Overflow.FLOW, 0), limited(Overflow.FLOW, 0)
    resumed: list[Producer] = []
    producer = Producer("p", resumed.append)
    one.publish(message("1"), 0.0, producer=producer)
    producer.waits_for.clear()  # as if another thread had published there at the same time
    other.publish(message("2"), 0.0, producer=producer)
    one.state.capacity.stop(producer)

    one.control.purge()
    assert (producer.blocked, resumed) == (True, [])
    other.control.purge()

    assert (producer.blocked, resumed) == (False, [producer])


@pytest.mark.parametrize(
    "rules",
    [Rules(), Rules(overflow=Overflow.FLOW, limits=Limits(messages=9)), Rules(overflow=Overflow.RING)],
    ids=["no policy", "more room", "another policy"],
)
def test_other_rules_can_let_producers_go_on(rules: Rules) -> None:
    queue, producer = limited(Overflow.FLOW, 0), Producer("p")
    queue.publish(message("1"), 0.0, producer=producer)

    queue.control.change(rules)

    assert (producer.blocked, queue.flow_stopped) == (False, False)


def test_smaller_limits_can_stop_the_flow() -> None:
    queue = limited(Overflow.FLOW, 5)
    publish(queue, "1", "2")

    queue.control.change(Rules(overflow=Overflow.FLOW, limits=Limits(messages=1)))

    assert queue.flow_stopped


def test_a_producer_of_a_deleted_queue_waits_no_more() -> None:
    queue, producer = limited(Overflow.FLOW, 0), Producer("p")
    consumer = subscribe(queue)
    queue.publish(message("1"), 0.0, producer=producer)
    take(queue, consumer)

    queue.control.delete(1.0)

    assert not producer.blocked


@pytest.mark.parametrize(
    ("sizes", "held", "fitting"),
    [
        ([1, 1, 1], (0, 0), [True, True, False]),
        ([9, 11, 1], (0, 0), [True, False, True]),
        ([1], (2, 0), [False]),
        ([10], (1, 0), [True]),
        ([10], (1, 1), [False]),
    ],
)
def test_of_several_messages_those_that_are_too_much_are_dropped_or_all_are_refused(
    sizes: list[int], held: tuple[int, int], fitting: list[bool]
) -> None:
    limits = Limits(messages=2, size_bytes=10)

    assert limits.admit("orders", sizes, *held, drops=True) == fitting
    if not all(fitting):
        with pytest.raises(QueueFull, match=r"'orders' holds .* more do not fit"):
            limits.admit("orders", sizes, *held, drops=False)
