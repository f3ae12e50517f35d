import pytest

from django_mq.errors import QueueInUse, UnknownQueue
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.rules import Rules
from tests.inprocess.builders import drain, publish, subscribe


def test_a_queue_is_declared_once_and_found_by_its_name() -> None:
    broker = Broker()
    queue = broker.declare("queue")

    assert broker.declare("queue") is queue
    assert broker.queue("queue") is queue
    assert (queue.name, list(broker)) == ("queue", [queue])


def test_declaring_again_with_other_rules_changes_the_queue_that_is_there() -> None:
    broker = Broker()
    queue = broker.declare("queue")
    publish(queue, "m")

    broker.declare("queue", Rules(levels=3))

    assert (queue.rules.levels, drain(queue, subscribe(queue))) == (3, ["m"])


def test_declaring_again_without_rules_changes_nothing() -> None:
    broker = Broker()
    queue = broker.declare("queue", Rules(levels=3))

    broker.declare("queue")

    assert queue.rules.levels == 3


def test_the_queues_of_a_broker_share_its_lock() -> None:
    broker = Broker()

    assert broker.declare("one").lock is broker.declare("other").lock is broker.lock


def test_a_deleted_queue_is_unknown_and_its_name_is_free() -> None:
    broker = Broker()
    old = broker.declare("queue")
    broker.delete("queue", 1.0)

    with pytest.raises(UnknownQueue):
        broker.queue("queue")
    assert old.deleted
    assert broker.declare("queue") is not old


@pytest.mark.parametrize("rules", [Rules(dead_letter_queue="last"), Rules(expiry_queue="last")])
def test_a_queue_is_kept_while_another_sends_messages_to_it(rules: Rules) -> None:
    broker = Broker()
    last = broker.declare("last")
    broker.declare("queue", rules)
    with pytest.raises(QueueInUse):
        broker.delete("last", 0.0)

    broker.delete("queue", 0.0)
    broker.delete("last", 0.0)

    assert last.deleted


def test_a_broker_forgets_the_queues_that_went_by_themselves() -> None:
    broker = Broker()
    for number in range(3):
        queue = broker.declare(f"reply {number}", Rules(auto_delete=True))
        queue.remove_consumer(subscribe(queue))

    broker.keep_house(1.0)

    assert list(broker) == []
    assert not broker._queues


def test_housekeeping_is_due_when_the_first_queue_needs_it() -> None:
    broker = Broker()
    assert broker.next_time() is None
    for name, time in (("late", 9.0), ("soon", 5.0)):
        publish(broker.declare(name), name, deliver_at=time)

    assert broker.next_time() == 5.0
    broker.keep_house(5.0)

    assert broker.next_time() == 9.0
    assert [each.message.id for each in broker.queue("soon").browse()] == ["soon"]


def test_expired_messages_of_every_queue_go_when_house_is_kept() -> None:
    broker = Broker()
    expired = broker.declare("expired")
    queue = broker.declare("queue", Rules(expiry_queue="expired"))
    publish(queue, "m", expires_at=5.0)

    broker.keep_house(5.0)

    assert (queue.entries(), [each.message.id for each in expired.browse()]) == ([], ["m"])
