"""How often a claim from a constrained queue asks the database: so it cannot grow unnoticed."""

from __future__ import annotations

import re
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.selector import Selector
from django_mq.stores.records import ClaimRequest, ConsumerInfo, Heartbeat
from django_mq.stores.registry import private_store
from tests.stores.builders import declare, open_session, publish, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.stores.sql.store import SQLStore

pytestmark = pytest.mark.django_db(databases=["default", "postgresql", "mariadb"], transaction=True)


class Most(NamedTuple):
    """The most of each: SQLite looks without a lock first, MariaDB reads what PostgreSQL's lease returns."""

    default: int = 6
    postgresql: int = 2
    mariadb: int = 4


#: With one more statement, which writes the slot and the groups that become the session's.
OWNING = Most(default=7, mariadb=5)


CONSTRAINED: dict[str, tuple[dict[str, Any], Most]] = {
    "shared groups": ({"grouping": "shared"}, Most()),
    "in flight": ({"max_in_flight": 100}, Most()),
    "strict": ({"strict": True}, Most()),
    "priorities": ({}, Most()),
    # The slot is the session's already.
    "slots": ({"max_consumers": 2}, Most()),
    # The groups are new.
    "assigned groups": ({"grouping": "assigned"}, OWNING),
}


def statements_of_sqlite(store: SQLStore, act: Callable[[], None]) -> int:
    statements: list[str] = []
    store.database.connection.connection.set_trace_callback(statements.append)
    act()
    store.database.connection.connection.set_trace_callback(None)
    return len(statements)


def round_trips_to_postgresql(store: SQLStore, act: Callable[[], None]) -> int:
    """A client waits for the server after each Sync."""
    with tempfile.TemporaryFile() as trace:
        store.database.connection.connection.pgconn.trace(trace.fileno())
        act()
        store.database.connection.connection.pgconn.untrace()
        trace.seek(0)
        return len(re.findall(rb"\tF\t\d+\t(?:Sync|Query)\b", trace.read()))


def round_trips_to_mariadb(store: SQLStore, act: Callable[[], None]) -> int:
    """A client waits for the server after each query, which may be of two statements."""
    driver = store.database.connection.connection
    asked: list[bytes] = []
    ask = driver.query

    def noting(query: bytes) -> None:
        asked.append(query)
        ask(query)

    driver.query = noting
    act()
    driver.query = ask
    return len(asked)


COUNTS: dict[str, Callable[[SQLStore, Callable[[], None]], int]] = {
    "default": statements_of_sqlite,
    "postgresql": round_trips_to_postgresql,
    "mariadb": round_trips_to_mariadb,
}


@pytest.fixture(params=COUNTS)
def store(request: pytest.FixtureRequest) -> Iterator[SQLStore]:
    opened: Any = private_store(request.param)
    yield opened
    opened.close()


@pytest.mark.parametrize("rule", CONSTRAINED)
def test_a_claim_from_a_constrained_queue_asks_seldom(store: SQLStore, rule: str) -> None:
    options, most = CONSTRAINED[rule]
    sessions = consuming(store, rule, options)

    assert count_of_a_claim(store, sessions[0]) == getattr(most, store.alias)


def test_a_claim_that_takes_a_slot_and_groups_writes_them_together(store: SQLStore) -> None:
    sessions = consuming(store, "slots", {"grouping": "assigned", "max_consumers": 2})

    assert count_of_a_claim(store, sessions[1]) == getattr(OWNING, store.alias)


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_on_postgresql_taking_over_groups_costs_no_round_trip(store: SQLStore) -> None:
    sessions = consuming(store, "groups", {"grouping": "balanced"})
    request = ClaimRequest(queues=("orders",), credit=20, in_order=frozenset({"orders"}))
    held = store.claims.settle_and_claim(sessions[0], [], request).claimed
    for message in held:
        publish(store, group_key=message.group_key)
    store.claims.settle_and_claim(sessions[0], [verdict(message, Verdict.ACCEPT) for message in held], None)

    taken: list[str | None] = []

    def claim() -> None:
        taken.extend(item.group_key for item in store.claims.settle_and_claim(sessions[1], [], request).claimed)

    assert (round_trips_to_postgresql(store, claim), len(taken)) == (2, 3)


def count_of_a_claim(store: SQLStore, session: int) -> int:
    """How often a claim of two messages asks."""
    claimed: list[int] = []

    def claim() -> None:
        result = store.claims.settle_and_claim(session, [], ClaimRequest(queues=("orders",), credit=2))
        claimed.extend(message.id for message in result.claimed)

    count = COUNTS[store.alias](store, claim)
    assert len(claimed) == 2
    return count


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_on_postgresql_settlements_travel_with_the_claim(store: SQLStore) -> None:
    [session, _] = consuming(store, "in flight", {"max_in_flight": 3})
    request = ClaimRequest(queues=("orders",), credit=2)
    held = store.claims.settle_and_claim(session, [], request).claimed
    given = [verdict(message, Verdict.ACCEPT) for message in held]

    count = round_trips_to_postgresql(
        store, lambda: held.extend(store.claims.settle_and_claim(session, given, request).claimed)
    )

    assert (len(held), count) == (4, 2)


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
@pytest.mark.parametrize("selectors", [["a = 1"], ["a = 1", "b = 1 AND size < 10", ""]])
def test_on_postgresql_a_claim_by_selectors_is_one_round_trip(store: SQLStore, selectors: list[str]) -> None:
    declare(store)
    session = open_session(store)
    for _ in range(6):
        publish(store, headers='{"a": 1}')
    wanted = {"orders": [Wanted(Selector(text), 2) for text in selectors]}
    request = ClaimRequest(queues=("orders",), credit=2, promote=False, wanted=wanted)
    held: list[Any] = []

    def claim() -> None:
        given = [verdict(each, Verdict.ACCEPT) for each in held[-2:]]
        held.extend(store.claims.settle_and_claim(session, given, request).claimed)

    # The first claims prepare their statements.
    counts = [round_trips_to_postgresql(store, claim) for _ in range(3)]

    assert (len(held), counts[-1]) == (6, 1)


def consuming(store: SQLStore, rule: str, options: dict[str, Any]) -> list[int]:
    """Two sessions of one queue, the first of them better where priorities matter, and one message gone."""
    declare(store, **options)
    sessions = [open_session(store), open_session(store)]
    for session, priority in zip(sessions, (1 if rule == "priorities" else 0, 0), strict=True):
        consumer = ConsumerInfo(queue_name="orders", priority=priority, credit_limit=10)
        store.sessions.renew(
            session, Heartbeat(deadline_seconds=60, queues=("orders",), credit=10, consumers=(consumer,))
        )
    for number in range(8):
        publish(store, group_key=str(number))
    # What a store prepares and remembers after its first claim is not asked again.
    store.claims.settle_and_claim(sessions[1], [], ClaimRequest(queues=("orders",), credit=0))
    store.claims.settle_and_claim(sessions[0], [], ClaimRequest(queues=("orders",), credit=1))
    return sessions
