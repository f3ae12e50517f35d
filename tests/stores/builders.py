"""What a test of a store says in one word: declare, publish, open a session, claim, settle."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import uuid4

from django_mq.engine.options import QueueOptions
from django_mq.stores.records import ClaimRequest, NewMessage, SessionInfo, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.decisions.verdict import Verdict
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, ClaimResult

DEADLINE_SECONDS = 15.0


def options(**given: Any) -> dict[str, Any]:
    """A queue's options, the defaults where nothing is given."""
    return QueueOptions(**given).as_dict()


def declare(store: Store, name: str = "orders", **given: Any) -> str:
    """Declare a queue and return its name."""
    store.queues.declare(name, options(**given))
    return name


def a_message(queue: str = "orders", **given: Any) -> NewMessage:
    """A message as the publisher hands it to the store."""
    return NewMessage(
        **{"queue_name": queue, "message_id": uuid4(), "body": b"{}", "content_type": "json"} | given
    )


def publish(store: Store, queue: str = "orders", **given: Any) -> int:
    """Append one message and return its row id."""
    return store.publications.append(a_message(queue, **given))


def open_session(
    store: Store, name: str = "worker", *, deadline_seconds: float = DEADLINE_SECONDS, queues: tuple[str, ...] = ()
) -> int:
    """Open a worker session and return its id."""
    info = SessionInfo(name=name, kind="native", host="host", pid=1, version="1", queues=queues)
    return store.sessions.open(info, deadline_seconds=deadline_seconds)


def look(store: Store, session: int, *queues: str, credit: int = 100, **given: Any) -> ClaimResult:
    """Claim from the queues (``orders`` if none is named) and return all that came back."""
    return store.claims.claim(session, ClaimRequest(queues=queues or ("orders",), credit=credit, **given))


def claim(store: Store, session: int, *queues: str, credit: int = 100, **given: Any) -> list[Claimed]:
    """Claim and return the messages."""
    return look(store, session, *queues, credit=credit, **given).claimed


def ids(messages: list[Any]) -> list[int]:
    """The row ids, in order."""
    return [message.id for message in messages]


def verdict(message: Claimed, how: Verdict, **given: Any) -> Settlement:
    """A settlement of a claimed message."""
    return Settlement(message.id, message.claim, how, **given)


def settle(store: Store, session: int, message: Claimed, how: Verdict, **given: Any) -> frozenset[int]:
    """Settle one message and return the void ids."""
    return store.settlements.settle(session, [verdict(message, how, **given)])


def pass_time(store: Any, seconds: float) -> None:
    """Move the store's clock ahead."""
    store.database.clock_offset += timedelta(seconds=seconds)


def lose_worker(store: Store, session: int) -> None:
    """Let the session's deadline pass and reap it, with all others that were not renewed."""
    pass_time(store, DEADLINE_SECONDS + 1)
    store.sessions.reap()


@contextmanager
def after_a_statement(store: Any, text: str, act: Callable[[], object]) -> Iterator[None]:
    """Act once, right after the store has run a statement that contains the text: as another process may."""
    waiting = [act]
    begin_or_end = store.database.execute

    def look(sql: str) -> None:
        if waiting and text in sql:
            waiting.pop()()

    def run(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        look(sql)
        return answer

    def run_past_django(sql: str) -> None:
        begin_or_end(sql)
        look(sql)

    # Django's wrappers do not see how a worker begins and ends a transaction of PostgreSQL.
    with store.database.connection.execute_wrapper(run), patch.object(store.database, "execute", run_past_django):
        yield
    assert not waiting, f"no statement contained {text!r}"
