from django_mq.engine.decisions.credit import WindowCredit
from django_mq.inprocess.consumers.consumer import Consumer, Interest
from django_mq.inprocess.consumers.subscriptions import Consumers
from tests.inprocess.builders import entry


def interested(consumers: Consumers, name: str, priority: int = 0, messages: int | None = None) -> Consumer:
    consumer = Consumer(name, WindowCredit(messages), priority=priority)
    consumers.add(consumer)
    consumers.become_interested(consumer)
    return consumer


def test_a_consumer_is_subscribed_once() -> None:
    consumers, consumer = Consumers(), Consumer("c")

    assert [consumers.add(consumer), consumers.add(consumer)] == [True, False]
    assert [consumers.remove(consumer), consumers.remove(consumer)] == [True, False]
    assert consumer.interest is Interest.REMOVED


def test_the_longest_idle_is_woken_first() -> None:
    consumers = Consumers()
    first, second = interested(consumers, "first"), interested(consumers, "second")
    assert consumers.to_wake(entry()) is first

    consumers.become_notified(first)
    consumers.become_interested(first)

    assert consumers.to_wake(entry()) is second


def test_one_that_is_awake_is_not_woken() -> None:
    consumers = Consumers()
    consumers.become_notified(interested(consumers, "c"))

    assert consumers.to_wake(entry()) is None
    assert consumers.awake == 1


def test_a_higher_priority_is_woken_first_however_short_it_was_idle() -> None:
    consumers = Consumers()
    interested(consumers, "low", priority=1)
    high = interested(consumers, "high", priority=2)

    assert consumers.to_wake(entry()) is high


def test_a_lower_priority_is_not_woken_for_what_a_higher_one_that_is_awake_will_take() -> None:
    consumers = Consumers()
    interested(consumers, "low", priority=1)
    consumers.become_notified(interested(consumers, "high", priority=2))

    assert consumers.to_wake(entry()) is None


def test_one_that_declined_an_entry_is_passed_over() -> None:
    consumers = Consumers()
    picky, other = interested(consumers, "picky"), interested(consumers, "other")
    declined = entry()
    declined.claim(picky)
    declined.decline(picky)

    assert consumers.to_wake(declined) is other


def test_a_higher_priority_is_in_the_way_only_of_what_it_can_afford() -> None:
    consumers = Consumers()
    low = interested(consumers, "low", priority=1)
    high = interested(consumers, "high", priority=2, messages=1)
    assert consumers.above(low, entry())

    high.credit.take(0)

    assert not consumers.above(low, entry())


def test_equals_are_never_in_each_others_way() -> None:
    consumers = Consumers()
    one = interested(consumers, "one")
    interested(consumers, "other")

    assert not consumers.above(one, entry())


def test_the_top_priority_falls_when_its_last_consumer_leaves() -> None:
    consumers = Consumers()
    interested(consumers, "low", priority=-3)
    high = interested(consumers, "high", priority=5)
    assert consumers.top_priority == 5

    consumers.remove(high)

    assert consumers.top_priority == -3


def test_every_consumer_stands_in_exactly_one_set() -> None:
    consumers, each = Consumers(), entry()
    consumer = interested(consumers, "c")

    for move in (consumers.become_notified, consumers.rest, consumers.become_interested):
        move(consumer)
        assert consumer.home is not None
        assert consumer in consumer.home
    consumers.block(consumer, each)
    assert (list(consumers.blocked), list(consumers.in_turn()), list(consumers.resting)) == ([consumer], [], [])
