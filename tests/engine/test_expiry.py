from django_mq.engine.decisions.expiry import is_expired
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.entries.timeline import Timeline, expiry_order
from tests.engine.builders import message
from tests.inprocess.builders import names


def test_a_message_is_expired_from_its_very_instant_on() -> None:
    until_nine = message(expires_at=9.0)

    assert [is_expired(until_nine, now) for now in (8.999, 9.0, 9.001)] == [False, True, True]


def test_a_message_without_an_expiry_never_expires() -> None:
    assert not is_expired(message(), 1e12)


def test_entries_are_kept_in_the_order_they_expire() -> None:
    expiring = Timeline(expiry_order)
    for arrival, expires_at in enumerate([3.0, 1.0, 2.0]):
        expiring.add(Entry(message(str(arrival), expires_at=expires_at), arrival=arrival))

    assert names(expiring.pop_until(2.0)) == ["1", "2"]
