"""Byte credit: a worker holds of each queue no more bytes than its handlers may."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import publish_many
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import consumer, forget, handler_of
from django_mq.delivery.consumer.lease import Driver
from django_mq.delivery.consumer.prefetch import Dispatcher, Prefetch
from django_mq.delivery.consumer.runtime import ConsumerRuntime
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.claim import ANY_SIZE, ByteCredit, allowed
from django_mq.engine.decisions.credit import PrefetchCredit
from django_mq.errors import ConfigurationError
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_claimed, a_handler, a_policy, running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.runtime import Fetcher
    from django_mq.stores.records import Claimed

pytestmark = pytest.mark.on("sqlite", once="postgresql")

QUEUE = "orders"
CLAIMED = Message.Status.CLAIMED


def test_what_is_allowed_is_what_the_engines_credit_takes() -> None:
    random = Random(3)
    for _ in range(500):
        given = ByteCredit(random.randint(1, 20), random.choice([0, 1, 7]))
        sizes = [random.randint(1, 15) for _ in range(6)]
        credit = PrefetchCredit(None, given.most)
        credit.outstanding, credit.outstanding_bytes = int(given.held > 0), given.held
        credit.resize(None, given.most)

        taken = []
        for size in sizes:
            taken.append(all(taken) and credit.take(size))

        if given.is_open:
            assert allowed([(QUEUE, size) for size in sizes], {QUEUE: given}) == taken, (given, sizes)
        else:
            assert not any(taken)


# The decorator and the settings.


@pytest.mark.parametrize(
    "given",
    [0, -1, 1.5, True, "1000", ANY_SIZE + 1, 10**5000],
    ids=["zero", "negative", "fraction", "bool", "text", "too many", "far too many"],
)
def test_a_wrong_number_of_bytes_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="credit_bytes of the handler"):
        consumer(QUEUE, credit_bytes=given)


def test_a_handler_has_its_own_number_or_that_of_its_worker_or_of_the_settings(settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "CREDIT_BYTES": 300}
    consumer(QUEUE, credit_bytes=100)(print)
    named = handler_of(QUEUE)
    forget(QUEUE)

    assert [named.bytes_with(200), a_handler().bytes_with(200), a_handler().bytes_with(None)] == [100, 200, 300]


# What a worker has prefetched.


def begin(message: Claimed, handler: Handler, receipt: Any) -> Delivery:
    return Delivery(message, handler, a_policy(name=message.queue_name), receipt=receipt)


def test_messages_that_wait_and_messages_that_run_use_the_credit() -> None:
    dispatcher = Dispatcher([Prefetch([a_handler(credit_bytes=100)], begin)])
    dispatcher.offer([a_claimed(body=b"x" * 40), a_claimed(body=b"x" * 60)])
    assert (dispatcher.byte_credit(), dispatcher.wanted()) == ({QUEUE: ByteCredit(100, 100)}, {})

    first = dispatcher.next_attempt()
    assert first is not None
    assert dispatcher.byte_credit() == {QUEUE: ByteCredit(100, 100)}
    dispatcher.finish(first)
    assert (dispatcher.byte_credit(), dispatcher.wanted()) == ({QUEUE: ByteCredit(100, 60)}, {QUEUE: 19})
    assert dispatcher.is_worth_a_claim(QUEUE, 1)

    assert len(dispatcher.empty()) == 1
    assert dispatcher.byte_credit() == {QUEUE: ByteCredit(100)}


def test_a_message_that_is_larger_than_the_credit_runs_alone() -> None:
    dispatcher = Dispatcher([Prefetch([a_handler(credit_bytes=10)], begin)])
    dispatcher.offer([a_claimed(body=b"x" * 40)])

    attempt = dispatcher.next_attempt()

    assert attempt is not None
    assert dispatcher.wanted() == {}
    dispatcher.finish(attempt)
    assert dispatcher.wanted() == {QUEUE: 20}


def test_without_a_number_nothing_is_counted() -> None:
    dispatcher = Dispatcher([Prefetch([a_handler()], begin)])
    dispatcher.offer([a_claimed(body=b"x" * 40)])

    assert dispatcher.byte_credit() == {}


# When to claim.


@pytest.fixture
def fetcher(committed_database: str) -> Iterator[Fetcher]:
    declare(shared_store(committed_database), QUEUE)
    runtime = ConsumerRuntime(committed_database, kind="native", driver=Driver())
    runtime.fetcher.consume((QUEUE,))
    yield runtime.fetcher
    runtime.close()
    runtime.session.store.close()


def fetched(fetcher: Fetcher, held: int, *, slots: int = 5) -> list[int]:
    fetcher.restrict((QUEUE,), {QUEUE: 10}, {QUEUE: ByteCredit(100, held)})
    claimed = fetcher.fetch(credit=10, slots=slots, refill={QUEUE: 4})
    return [len(message.body) for message in claimed]


def publish_sizes(*sizes: int) -> None:
    publish_many([(QUEUE, b"x" * size) for size in sizes])


def test_a_message_without_enough_credit_is_asked_for_again_when_more_is_free(fetcher: Fetcher) -> None:
    publish_sizes(60, 60)

    assert fetched(fetcher, 0) == [60]
    assert [fetched(fetcher, 60), fetcher.short, fetcher.last.sure, fetcher.backlog] == [
        [],
        {QUEUE: 40},
        False,
        False,
    ]
    assert [fetched(fetcher, 60), fetcher.looking] == [[], False]
    assert [fetched(fetcher, 30), fetcher.short] == [[60], {}]


def test_without_a_free_slot_a_claim_waits_until_enough_bytes_are_free(fetcher: Fetcher) -> None:
    publish_sizes(60, 5)
    assert fetched(fetcher, 90) == []

    assert fetched(fetcher, 65, slots=0) == []
    assert fetched(fetcher, 65, slots=1) == []
    assert fetched(fetcher, 40, slots=0) == [60]
    assert fetched(fetcher, 61, slots=0) == []
    assert fetched(fetcher, 0, slots=0) == [5]


# A worker, from end to end.


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
    declare(shared_store(committed_database), QUEUE)
    return committed_database


def finished(alias: str) -> int:
    return History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED).count()


def test_a_worker_holds_no_more_bytes_than_the_credit(alias: str) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def handle(_: Any) -> None:
        begun.release()
        gate.wait(PATIENCE_SECONDS)

    publish_sizes(*[40] * 9, 500, 40)
    with running(a_handler(handle, credit_bytes=100), using=alias, threads=5):
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        assert Message.objects.using(alias).filter(state=CLAIMED).count() == 2
        gate.set()
        wait_until(lambda: finished(alias) == 11)


@pytest.mark.parametrize("threads", [1, 3])
def test_queues_with_and_without_byte_credit_are_emptied(alias: str, threads: int) -> None:
    declare(shared_store(alias), "mails")
    random, most, held, lock = Random(5), [0], [0], threading.Lock()
    sizes = [random.randint(1, 120) for _ in range(60)]
    publish_sizes(*sizes)
    publish_many([("mails", number) for number in range(60)])

    def handle(message: Any) -> None:
        with lock:
            held[0] += len(message.body)
            most[0] = max(most[0], held[0] if held[0] > len(message.body) else 0)
        with lock:
            held[0] -= len(message.body)

    handlers = [a_handler(handle, credit_bytes=100), a_handler(lambda _: None, queue="mails")]
    Worker(handlers, threads=threads, using=alias).run(until_empty=True)

    assert finished(alias) == 120
    assert most[0] <= 100


def test_credit_that_no_message_exhausts_does_not_make_claims_small(alias: str) -> None:
    publish_sizes(*[10] * 400)
    worker = Worker([a_handler(credit=100)], threads=1, using=alias, credit_bytes=500)
    claims = worker.session.store.claims.tokens  # type: ignore[attr-defined]
    begin_ = next(claims)

    worker.run(until_empty=True)

    assert finished(alias) == 400
    assert next(claims) - begin_ < 60
