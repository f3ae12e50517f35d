"""Byte credit: a claim brings of each queue no more bytes than the queue's consumer may hold."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import TYPE_CHECKING

from django_mq.engine.decisions.claim import ByteCredit, allowed, fitting
from django_mq.engine.decisions.verdict import Verdict
from django_mq.stores.records import ClaimRequest
from tests.stores.builders import claim, declare, ids, look, lose_worker, open_session, publish, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store


def each_kind_of_claim(store: Store) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield a session and its queues, ``orders`` first: with and without rules, one queue and two, all empty."""
    for rule, queues in product(({}, {"strict": True}), (("orders",), ("orders", "mails"))):
        for name in queues:
            declare(store, name, **(rule if name == "orders" else {}))
        session = open_session(store)
        yield session, queues
        store.sessions.close(session)
        for name in queues:
            store.deletions.delete_queue(name, force=True)


def test_a_claim_brings_no_more_than_the_byte_credit(store: Store) -> None:
    for session, queues in each_kind_of_claim(store):
        published = [publish(store, body=b"x" * size) for size in (40, 50, 11, 5)]

        found = look(store, session, *queues, byte_credit={"orders": ByteCredit(100)})

        assert (ids(found.claimed), found.more) == (published[:2], True)


def test_the_first_message_passes_whatever_its_size(store: Store) -> None:
    for session, queues in each_kind_of_claim(store):
        [large, small] = [publish(store, body=b"x" * size) for size in (500, 1)]

        assert ids(claim(store, session, *queues, byte_credit={"orders": ByteCredit(100)})) == [large]
        assert claim(store, session, *queues, byte_credit={"orders": ByteCredit(100, 500)}) == []
        assert ids(claim(store, session, *queues, byte_credit={"orders": ByteCredit(100)})) == [small]


def test_behind_a_message_that_does_not_fit_nothing_is_claimed(store: Store) -> None:
    for session, queues in each_kind_of_claim(store):
        published = [publish(store, body=b"x" * size) for size in (60, 5)]

        assert claim(store, session, *queues, byte_credit={"orders": ByteCredit(100, 50)}) == []
        found = claim(store, session, *queues, byte_credit={"orders": ByteCredit(100, 35)})
        assert ids(found) == published


def test_a_queue_without_byte_credit_gives_no_less(store: Store, orders: str, session: int) -> None:
    declare(store, "mails")
    [large, mail] = [publish(store, name, body=b"x" * 60) for name in (orders, "mails")]

    assert ids(claim(store, session, orders, "mails", byte_credit={orders: ByteCredit(100, 50)})) == [mail]
    assert ids(claim(store, session, orders, "mails", byte_credit={"mails": ByteCredit(1, 1)})) == [large]


def test_a_suspect_counts_like_any_other(store: Store, orders: str, session: int) -> None:
    published = [publish(store, body=b"x" * 60)]
    claim(store, session)
    lose_worker(store, session)
    heir = open_session(store, "heir")

    assert claim(store, heir, byte_credit={orders: ByteCredit(100, 50)}) == []
    assert ids(claim(store, heir, byte_credit={orders: ByteCredit(50)})) == published


def test_settling_and_claiming_together_keeps_to_it(store: Store, orders: str, session: int) -> None:
    declare(store, "mails")
    for queues in ((orders,), (orders, "mails")):
        published = [publish(store, body=b"x" * 60) for _ in range(3)]
        request = ClaimRequest(queues=queues, credit=10, promote=False, byte_credit={orders: ByteCredit(100)})
        for id_ in published:
            found = store.claims.settle_and_claim(session, [], request).claimed
            assert ids(found) == [id_]
            settled = store.claims.settle_and_claim(
                session, [verdict(message, Verdict.ACCEPT) for message in found], None
            )
            assert not settled.void


def test_a_claim_is_allowed_what_the_engine_says(store: Store, session: int) -> None:
    random = Random(17)
    for number in range(25):
        names = [declare(store, f"queue {number} {part}") for part in range(1 + number % 3)]
        line = sorted((random.choice(names), random.randint(1, 9)) for _ in range(8))
        published = [publish(store, name, body=b"x" * size) for name, size in line]
        given = {name: ByteCredit(random.randint(1, 30), random.choice([0, 5])) for name in names[:2]}
        most = random.choice([20, 1000])

        found = claim(store, session, *names, listed=True, byte_credit=given, max_bytes=most)

        within = [each for each, fits in zip(published, allowed(line, given), strict=True) if fits]
        sizes = [(False, line[published.index(each)][1]) for each in within]
        assert ids(found) == within[: fitting(sizes, 1, most)], (line, given, most)
