"""When to claim: an empty queue is asked again only for a reason."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from django_mq.api import publish, publish_many
from django_mq.delivery.consumer.lease import Driver
from django_mq.delivery.consumer.runtime import ConsumerRuntime
from django_mq.delivery.queues import declare
from django_mq.engine.options import QueueOptions
from django_mq.errors import StoreUnavailable
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import shared_store
from tests.conftest import SERVED, hold_queues
from tests.support.narrow import narrow
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from django_mq.delivery.consumer.runtime import Fetcher

pytestmark = pytest.mark.on("sqlite", once="postgresql")


@pytest.fixture
def fetcher(committed_database: str) -> Iterator[Fetcher]:
    """A fetcher of the queues ``orders`` and ``mails``."""
    for name in ("orders", "mails"):
        declare(shared_store(committed_database), name)
    runtime = ConsumerRuntime(committed_database, kind="native", driver=Driver())
    runtime.fetcher.consume(("orders", "mails"))
    yield runtime.fetcher
    runtime.close()
    runtime.session.store.close()


def bodies(fetcher: Fetcher, *, credit: int = 10, slots: int = 10, refill: int = 1) -> list[bytes]:
    return [message.body for message in fetcher.fetch(credit=credit, slots=slots, refill=refill)]


def test_the_first_fetch_looks(fetcher: Fetcher) -> None:
    publish("orders", 1)

    assert bodies(fetcher) == [b"1"]


def test_the_fetcher_answers_with_a_claim_or_with_the_time_until_which_to_wait(fetcher: Fetcher) -> None:
    publish("orders", 1, delay=600)
    request = fetcher.answer(credit=5, slots=2)
    assert isinstance(request, ClaimRequest)
    assert (set(request.queues), request.credit, request.slots) == ({"orders", "mails"}, 5, 2)

    assert bodies(fetcher) == []

    assert fetcher.answer(credit=5, slots=2) == fetcher.due_at


def test_an_empty_queue_is_not_asked_again_without_a_reason(fetcher: Fetcher) -> None:
    assert bodies(fetcher) == []
    publish("orders", 1)
    assert bodies(fetcher) == []

    fetcher.look()

    assert bodies(fetcher) == [b"1"]


def test_what_a_limit_cut_off_is_claimed_without_being_told(fetcher: Fetcher) -> None:
    for number in range(3):
        publish("orders", number)

    assert bodies(fetcher, credit=2) == [b"0", b"1"]
    assert bodies(fetcher, credit=2) == [b"2"]


def test_without_credit_nothing_is_claimed(fetcher: Fetcher) -> None:
    publish("orders", 1)

    assert bodies(fetcher, credit=0) == []
    assert bodies(fetcher, credit=1) == [b"1"]


def test_without_a_free_slot_a_claim_waits_until_it_is_worth_it(fetcher: Fetcher) -> None:
    publish("orders", 1)

    assert bodies(fetcher, slots=0, credit=1, refill=2) == []
    assert bodies(fetcher, slots=0, credit=2, refill=2) == [b"1"]


def test_a_scheduled_message_is_looked_for_when_it_is_due(fetcher: Fetcher) -> None:
    publish("orders", 1, delay=600)
    assert bodies(fetcher) == []
    due = fetcher.seconds_until_due()
    assert due is not None
    assert 0 < due <= 600

    fetcher.session.store.database.clock_offset = timedelta(seconds=601)
    assert bodies(fetcher) == []
    fetcher.expect(0)
    assert bodies(fetcher) == [b"1"]


def test_a_retired_session_claims_nothing(fetcher: Fetcher) -> None:
    publish("orders", 1)
    fetcher.session.retire()

    assert bodies(fetcher) == []


def test_each_queue_is_claimed_from_within_its_own_limit(fetcher: Fetcher) -> None:
    for queue in ("orders", "mails"):
        for number in range(3):
            publish(queue, f"{queue} {number}")
    fetcher.restrict(("orders", "mails"), {"orders": 2, "mails": 1})

    assert sorted(bodies(fetcher, credit=3)) == [b'"mails 0"', b'"orders 0"', b'"orders 1"']


def test_without_a_free_slot_a_claim_waits_for_the_credit_of_a_queue_that_may_have_something(
    fetcher: Fetcher,
) -> None:
    for number in range(4):
        publish("orders", number)
    refill = {"orders": 2, "mails": 1}
    fetcher.restrict(("orders", "mails"), {"orders": 2, "mails": 1})
    assert len(fetcher.fetch(credit=3, slots=3, refill=refill)) == 2

    # Nothing was left in the queue mails, which has credit.
    fetcher.restrict(("orders", "mails"), {"orders": 1, "mails": 1})
    assert fetcher.fetch(credit=2, slots=0, refill=refill) == []
    fetcher.restrict(("orders", "mails"), {"orders": 2, "mails": 1})
    assert len(fetcher.fetch(credit=3, slots=0, refill=refill)) == 2


def test_a_queue_that_had_no_credit_is_claimed_from_when_it_has_some(fetcher: Fetcher) -> None:
    publish("mails", 1)
    fetcher.restrict(("orders",), {"orders": 5})
    assert bodies(fetcher) == []
    fetcher.look()
    assert bodies(fetcher) == []

    fetcher.restrict(("orders", "mails"), {"orders": 5, "mails": 1})

    assert bodies(fetcher) == [b"1"]


def test_a_queue_that_was_left_out_is_looked_into_when_it_comes_back(fetcher: Fetcher) -> None:
    fetcher.restrict(("orders",))
    assert bodies(fetcher) == []
    publish("mails", 1)
    assert bodies(fetcher) == []

    fetcher.restrict(("orders", "mails"))

    assert bodies(fetcher) == [b"1"]


def test_what_is_shown_of_the_session_is_not_restricted(fetcher: Fetcher) -> None:
    fetcher.restrict(("orders",))

    assert fetcher.session.queues == ("orders", "mails")


def test_an_outage_is_a_reason_to_look_again(fetcher: Fetcher) -> None:
    publish("orders", 1)
    fetcher.session.store.claims.__class__, whole = (
        type("Away", (type(fetcher.session.store.claims),), {"settle_and_claim": away}),
        type(fetcher.session.store.claims),
    )
    with pytest.raises(StoreUnavailable):
        bodies(fetcher)
    fetcher.session.store.claims.__class__ = whole

    assert bodies(fetcher) == [b"1"]


def away(*_: object) -> None:
    """Stand for a database that does not answer."""
    raise StoreUnavailable


def test_settlements_that_press_are_written_without_a_claim(fetcher: Fetcher) -> None:
    publish("orders", 1)
    (message,) = fetcher.fetch(credit=1, slots=1)
    fetcher.session.accept(message)

    wait_until(lambda: bodies(fetcher, credit=0) == [] and fetcher.session.held == 0)


def test_with_groups_the_next_is_claimed_with_the_settlement_of_the_one_before(
    fetcher: Fetcher, committed_database: str
) -> None:
    store = shared_store(committed_database)
    store.queues.declare("steps", QueueOptions(grouping="shared").as_dict())
    fetcher.consume(("steps",))
    for number in range(3):
        publish("steps", number, group_key="a")
    seen = []

    while held := fetcher.fetch(credit=10, slots=10):
        seen += [message.body for message in held]
        for message in held:
            fetcher.session.accept(message)

    assert seen == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "alias",
    [pytest.param(alias, marks=pytest.mark.django_db(databases=[alias], transaction=True)) for alias in SERVED],
)
def test_a_claim_that_is_too_large_for_the_connection_is_repeated_with_fewer_bytes(
    alias: str, settings: Settings
) -> None:
    hold_queues(settings, alias)
    declare(shared_store(alias), "orders")
    large = ["x" * 500_000] * 12  # a claim that breaks is far from its end, so that the server undoes it
    publish_many([("orders", body) for body in large])
    runtime = ConsumerRuntime(alias, kind="native", driver=Driver())
    session, fetcher = runtime.session, runtime.fetcher
    fetcher.consume(("orders",))
    connection = session.store.database.connection  # type: ignore[attr-defined]
    came: list[bytes] = []

    with narrow(connection.settings_dict, 3_000_000) as connection.settings_dict:
        failures = 0
        while len(came) < len(large) and failures < 10:
            fetcher.look()
            try:
                claimed = fetcher.fetch(credit=20, slots=20)
            except StoreUnavailable:
                failures += 1
            else:
                came += [message.body for message in claimed]
                for message in claimed:
                    session.accept(message)
        runtime.close()
        session.store.close()

    assert (came == [b'"%s"' % body.encode() for body in large], failures > 0) == (True, True)
