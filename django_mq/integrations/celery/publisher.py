"""What a transport writes, and over which connection: messages, queues, exchanges and bindings.

A publish is one INSERT on the caller's connection, inside the caller's transaction. Three publishes stay outside
of it: a task's own retry or replacement (the exception that follows would roll it back, and the task would be
lost), a publish under a running event loop (see ``apart_from_event_loops``), and messages of transient queues.

What Kombu declares is written apart from the caller's transaction, too. A queue's row inside a long transaction
would block every other first publisher, and a roll-back would remove it while Kombu believes that it is declared.

The rows tell what an exchange is: most publishers have not declared it, and other processes bind to it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, finalize

from amqp.exceptions import NotFound, PreconditionFailed
from celery import current_app, current_task

from django_mq import conf
from django_mq.delivery import hints, publisher, validation
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.chords import CHORDS, MEMBER_MARK
from django_mq.engine.decisions.routing import Exchange, Route, queues_reached
from django_mq.engine.options import NAME_LENGTH, QueueOptions
from django_mq.errors import (
    ConfigurationError,
    PublishError,
    QueueInUse,
    StoreError,
    StoreUnavailable,
    UnknownQueue,
    shown,
)
from django_mq.integrations.celery import failures
from django_mq.integrations.celery.message import TRIED, arguments_in, new_message, urgency
from django_mq.integrations.celery.transient_queues import loaded
from django_mq.integrations.celery.unique import note
from django_mq.integrations.celery.url import BEAT_ENTRY
from django_mq.notifications.registry import notifier
from django_mq.results import rosters
from django_mq.results.places import member_of, members_in
from django_mq.seams.ends import with_mark
from django_mq.stores import queue_records
from django_mq.stores.clock import clock
from django_mq.stores.connections import apart_from_event_loops
from django_mq.stores.registry import MEMORY, private_store, shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.decisions.routing import Reached
    from django_mq.engine.message import Message
    from django_mq.results.places import AwaitedMember
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage, QueueRecord

logger = logging.getLogger("django_mq.celery")


def is_published_here(alias: str, headers: Mapping[str, Any]) -> bool:
    """Whether celery beat publishes what a periodic message publishes; then the drop is a run of it."""
    # A retry has the headers of the first message.
    if not headers.get(BEAT_ENTRY) or failures.is_continuing(headers) or alias == MEMORY:
        return False
    from django_mq.periodic.editor import drop  # noqa: PLC0415 - models; only for what celery beat publishes

    return drop(str(headers[BEAT_ENTRY]), str(headers.get("task")), using=alias)


class Publisher:
    """Publishes Kombu messages for one transport."""

    def __init__(
        self, alias: str, declarations: Declarations, committing: Committing, *, redis_order: bool
    ) -> None:
        self._alias = alias
        self._declarations = declarations
        self._committing = committing
        self._redis_order = redis_order

    def as_message(self, message: dict[str, Any]) -> Message:
        """Return a Kombu message dictionary as the selectors of bindings read it."""
        return new_message("", message, priority=self._priority_of(message)).as_message(clock.now())

    def _priority_of(self, message: dict[str, Any]) -> int:
        return urgency(message["properties"].get("priority"), redis_order=self._redis_order)

    def publish(self, queues: list[str], message: dict[str, Any], *, batch: Batch | None = None) -> None:
        """Write the message into each queue, or add it to the batch. Raises as ``publish`` does."""
        if is_published_here(self._alias, message["headers"] or {}):
            return
        priority = self._priority_of(message)
        again = bool(message["properties"].get(TRIED))
        message["properties"][TRIED] = True
        rows = [new_message(queue, self._keyed(queue, message), priority=priority) for queue in queues]
        late: Sequence[AwaitedMember] = ()
        if isinstance(message["body"], str) and MEMBER_MARK in message["body"]:
            rows = [replace(row, told_to=with_mark(row.told_to, CHORDS)) for row in rows]
            late = note_members(message["headers"] or {}, message["body"])
        for row in rows:
            validation.check_size(row.body)
            validation.check_size(row.headers, "headers")
        owner = failures.owner() or _retried(message)
        shared = shared_store(self._alias)
        is_apart = owner is not None and shared.database.in_transaction
        if not is_apart:
            keep_members(shared, late)
        if owner is None and batch is not None:
            batch.add(rows)
        elif owner is None and (members := waiting_members(message["headers"] or {}, self._new_batch)) is not None:
            members.add(rows)
            members.flush_if_full()
        elif owner is None or not is_apart:
            self.write(rows, again=again)
        elif shared.features.concurrent_writers and not shared.database.in_test:
            self._write_apart(rows, again=again, late=late)
        else:
            # A second writer would wait for the transaction of this thread, which waits for the write.
            failures.defer(owner, lambda: self._write_apart(rows, again=again, late=late))
        note(rows)

    def _new_batch(self) -> Batch:
        return Batch(None, MANY, publish=self.publish, write=self.write)

    def _keyed(self, queue: str, message: dict[str, Any]) -> dict[str, Any]:
        """Return the message; in a queue that keys share, an argument of a task is the key if no header is."""
        fair = self._declarations.options(queue).fairness
        headers = message["headers"] or {}
        if fair is None or "task" not in headers:
            return message
        return message | {"headers": fair.with_key(headers, arguments_in(message).get(fair.header))}

    def take_over(self, queues: list[str]) -> None:
        """Move what the previous version has left in transient queues to the durable queues of the same names."""
        try:
            with self._committing() as store, store.database.transaction():
                taken = [(queue, loaded(payload)) for queue, payload in store.volatile.take(queues)]
                rows = [new_message(queue, each, priority=self._priority_of(each)) for queue, each in taken]
                if rows:
                    self._append(store, rows, again=False)
                    notifier().announce(hints.news_of(rows), over=store)
        except PublishError as error:
            logger.warning("Messages of the previous version stay in transient queues: %s", error)

    def _write_apart(self, rows: list[NewMessage], *, again: bool, late: Sequence[AwaitedMember]) -> None:
        """Commit now, even if the caller's transaction is rolled back, and hint now."""
        with self._committing.private() as store:
            keep_members(store, late)
            written = publisher.passed(store, rows, partial(self._append, store, again=again))
            notifier().announce(hints.news_of(written), over=store)

    def write(self, rows: list[NewMessage], *, again: bool) -> None:
        """Write rows with one statement in the caller's transaction, and hint when it commits."""
        store = shared_store(self._alias)
        in_transaction = store.database.in_transaction
        try:
            written = publisher.passed(store, rows, partial(self._append, store, again=again))
        except StoreError as error:
            if in_transaction and error.__cause__ is not None:
                # The transaction is broken: Kombu must not try again inside it.
                raise error.__cause__ from None
            raise
        hints.announce(written, store)

    def _append(self, store: Store, rows: list[NewMessage], *, again: bool) -> None:
        try:
            publisher.append(store, rows, again=again)
        except UnknownQueue:
            for row in rows:
                self._declarations.ensure(row.queue_name, anew=True)
            publisher.append(store, rows, again=again)


def _retried(message: dict[str, Any]) -> str | None:
    """Return the id of the running task if it publishes itself again. ``failures`` does not cover every task."""
    headers = message["headers"]
    # The header first: it takes long to learn that no task is running.
    if not headers.get("retries") or not current_task:
        return None
    return str(headers["id"]) if headers.get("id") == current_task.request.id else None


class Batch:
    """``Producer.batch()``: many publishes, one statement. Kombu calls its methods in one thread.

    The rows are written when there are enough, or when the batch is flushed or ends, in the transaction that is
    open then. Messages of transient queues and the running task's own retry are written at once.
    """

    def __init__(
        self,
        channel: object,
        max_size: int,
        *,
        publish: Callable[..., None],
        write: Callable[..., None],
    ) -> None:
        #: Kombu compares it with the channel of its producer.
        self.channel = channel
        self._max_size = max_size
        # The channel's ``basic_publish``, and the ``write`` of its publisher.
        self._publish = publish
        self._write = write
        self._rows: list[NewMessage] = []
        # Whether a try to write these rows was made: it may have been committed.
        self._tried = False

    def publish(self, message: dict[str, Any], exchange: str = "", routing_key: str = "", **options: Any) -> None:
        """Keep the rows of a message, and write them all when there are enough."""
        self._publish(message, exchange, routing_key, batch=self, **options)
        self.flush_if_full()

    def flush_if_full(self) -> None:
        if len(self._rows) >= self._max_size:
            self.flush()

    def add(self, rows: list[NewMessage]) -> None:
        """Add the rows of a message, once: Kombu publishes it again when a flush has failed."""
        known = {(row.message_id, row.queue_name) for row in self._rows} if self._tried else set()
        self._rows += [row for row in rows if (row.message_id, row.queue_name) not in known]

    @apart_from_event_loops
    def flush(self) -> None:
        """Write the rows with one statement; they stay if that fails. Raises as ``publish`` does."""
        if self._rows:
            again, self._tried = self._tried, True
            self._write(self._rows, again=again)
        self.discard()

    def discard(self) -> None:
        self._rows, self._tried = [], False

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


# The members of a chord are written many by one statement: Celery publishes them one by one.
#
#   apply_chord ──> collect ── each member that is published waits here ── set_chord_size ──> flush
#
# Celery announces the size of a chord right before it publishes the last member. Only messages of the group wait,
# so if the publisher fails between the two calls, nothing else is kept back.

#: How many members one statement writes.
MANY = 200


@dataclass(slots=True)
class Collected:
    """What a thread has published of a chord that begins now."""

    batch: Batch | None = None
    members: list[AwaitedMember] = field(default_factory=list)
    #: Whether all but the last member are written.
    is_flushed: bool = False


class _Collected(threading.local):
    def __init__(self) -> None:
        #: The chords that this thread begins now, by group: one may begin within another.
        self.chords: dict[str, Collected] = {}
        #: The bodies of these chords.
        self.bodies: WeakValueDictionary[str, Any] = WeakValueDictionary()


_collected = _Collected()


def collect_members(group_id: str, body: Any) -> None:
    """Keep the messages of this group that this thread publishes, until ``flush``, or until the body is gone."""
    _collected.bodies[group_id] = body
    if member := member_of(body.options, nesting=0):  # of another chord
        outer = _collected.chords.get(member.place.group_id)
        if outer is not None:
            outer.members.append(member)
    _collected.chords[group_id] = Collected()
    finalize(body, _collected.chords.pop, group_id, None).atexit = False


def body_of(group_id: str) -> Any:
    """Return the body of a chord that this thread begins now; None if it is not known."""
    return _collected.bodies.get(group_id)


def waiting_members(headers: Mapping[str, Any], make: Callable[[], Batch]) -> Batch | None:
    """Return the batch that a message waits in; None if it is to be written at once."""
    collected = _collected.chords.get(headers.get("group") or "")
    if collected is None or collected.is_flushed:
        return None
    if collected.batch is None:
        collected.batch = make()
    return collected.batch


def flush_members(group_id: str) -> None:
    """Write what is left of this group. Raises as ``publish`` does."""
    collected = _collected.chords.get(group_id)
    if collected is None:
        return
    if collected.batch is not None:
        collected.batch.flush()
    collected.batch, collected.is_flushed = None, True


def note_members(headers: Mapping[str, Any], body: str) -> Sequence[AwaitedMember]:
    """Note the members that a message leads to; return what is to be kept with the message.

    That is all members of a chord with the last one, and a member that continues under other ids.
    """
    owner = failures.owner()
    if not _collected.chords and owner is None:
        return ()
    late = []
    for member in members_in(headers, body):
        if (collected := _collected.chords.get(member.place.group_id)) is not None:
            collected.members.append(member)
        elif owner == member.place.task_id != headers.get("id"):
            late.append(member)
    # The last member may be a chord, whose messages have another group.
    for group_id in [name for name, each in _collected.chords.items() if each.is_flushed]:
        late += _collected.chords.pop(group_id).members
    return late


def keep_members(store: Store, members: Sequence[AwaitedMember]) -> None:
    """Keep members of chords, to find those whose worker is gone. Raises StoreError."""
    for group_id in sorted({each.place.group_id for each in members}):
        rosters.write(store, group_id, [each for each in members if each.place.group_id == group_id])


# Which connection writes what must not wait for the caller's transaction: queues, bindings, transient queues.
#
# no transaction is open             Django's connection, which commits each statement
# a transaction is open              a private connection, closed after use: most processes never need it again
# ... and the database has           the caller's: a second writer would wait for the transaction of this thread
#     one writer at a time
# in a worker, no transaction        the transport's private connection: children would inherit Django's
#
# A thread with an open transaction never waits for a connection that other threads share: one of them may be
# waiting, on that connection, for what the transaction has locked.

#: This process, once one of its transports is on a worker's event loop.
_workers: set[int] = set()
#: Alias to the private store that a worker's transports without a session share: events, gossip, replies.
_beside: dict[str, Store] = {}


class Committing:
    """Choose the connection for one transport. Calling it returns a context with the store to use."""

    def __init__(self, alias: str, session: Callable[[], Session | None]) -> None:
        self._alias = alias
        # The session of the transport, None while it consumes no durable queue.
        self._session = session

    @contextmanager
    def __call__(self) -> Iterator[Store]:
        """Use a store that commits each statement, where that is possible."""
        shared = shared_store(self._alias)
        waits_for_itself = shared.database.in_transaction and not shared.features.concurrent_writers
        if waits_for_itself or not (shared.database.in_transaction or self._in_worker()):
            with _replacing_a_broken_connection(shared):
                yield shared
        else:
            with self.private() as store:
                yield store

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """Use a store to read what others have committed: inside a transaction that of the caller."""
        shared = shared_store(self._alias)
        if shared.database.in_transaction:
            yield shared
        else:
            with self() as store:
                yield store

    @contextmanager
    def private(self) -> Iterator[Store]:
        """Use a store that commits each statement, even inside a transaction."""
        session, shared = self._session(), shared_store(self._alias)
        if shared.database.in_test:
            yield shared
        elif self._in_worker() and not shared.database.in_transaction:
            kept = session.store if session is not None else _store_beside(self._alias)
            with _replacing_a_broken_connection(kept):
                yield kept
        else:
            store = private_store(self._alias)
            try:
                yield store
            finally:
                store.close()

    def close(self) -> None:
        """Close the connection that transports without a session share; it opens again at its next use."""
        if self._alias in _beside:
            _beside[self._alias].close()

    def _in_worker(self) -> bool:
        return self._session() is not None or os.getpid() in _workers

    def enter_worker(self) -> None:
        """Treat this process as a worker from now on, and close the connection that children would inherit."""
        _workers.add(os.getpid())
        shared_store(self._alias).database.disconnect()


@contextmanager
def _replacing_a_broken_connection(store: Store) -> Iterator[None]:
    """Use a connection that is kept open: one that has ended meanwhile is replaced, and one that ends now, too.

    Nothing else would: Kombu connects again through the same kept connection, and no request begins.
    """
    store.database.reconnect_if_ended()
    try:
        yield
    except StoreUnavailable:
        store.database.reconnect()
        raise


def _store_beside(alias: str) -> Store:
    if alias not in _beside:
        _beside.setdefault(alias, private_store(alias))
    return _beside[alias]


class Declarations:
    """The durable queues and their bindings, as they were last read."""

    def __init__(self, alias: str, store: Callable[[], AbstractContextManager[Store]]) -> None:
        self._alias = alias
        self._store = store
        #: The rules of the queues that were declared here, in case that a queue has to be created, perhaps again.
        self.declared: dict[str, Mapping[str, Any]] = {}

    def ensure(self, name: str, *, anew: bool = False) -> None:
        """Create the queue if it does not exist; ``anew`` ignores what is remembered. Raises InvalidMessage."""
        if anew:
            queue_records.drop(self._alias, name)
        if not self.exists(name):
            self.create(name)

    def create(self, name: str) -> None:
        """Create a queue with its declared rules. Raises InvalidMessage for a name that no queue can have."""
        with self._store() as store:
            declare(store, name, self.declared.get(name))
        self._record(name)

    def note_use(self, name: str) -> None:
        """Let the time of a queue with ``x-expires`` begin again, as its declaration does on RabbitMQ."""
        with self._store() as store:
            store.deletions.note_use([name])

    def exists(self, name: str) -> bool:
        return self._record(name) is not None

    def knows(self, name: str) -> bool:
        """Whether the queue exists, or did when it was last read: seldom a statement."""
        return queue_records.remembered(self._alias, name) is not None or self.exists(name)

    def as_last_read(self, name: str) -> QueueOptions:
        """Return what was last read of a queue, or the defaults. The database is never asked."""
        return queue_records.remembered(self._alias, name) or QueueOptions()

    def options(self, name: str) -> QueueOptions:
        """Return the options of a queue, as was last read, or as the settings say if it does not exist yet."""
        known = queue_records.remembered(self._alias, name) or self._record(name)
        return known or conf.load().QUEUES.get(name) or QueueOptions()

    def refresh(self, names: Iterable[str]) -> None:
        """Read again what is older than a few seconds, for ``as_last_read``."""
        for name in names:
            self._record(name)

    def _record(self, name: str) -> QueueRecord | None:
        if (record := queue_records.fresh(self._alias, name)) is not None:
            return record
        validation.text(name, "The name of a queue")  # of a transient queue, too, which may be longer
        with self._store() as store:
            return queue_records.known(store, name)

    def delete(self, name: str, *, force: bool) -> int:
        """Delete a queue and return how many messages went with it; 0 if it is in use or unknown."""
        with suppress(QueueInUse, UnknownQueue), self._store() as store:
            return store.deletions.delete_queue(name, force=force)
        return 0

    def bind(self, queue: str, exchange: str, exchange_type: str, pattern: str, selector: str = "") -> None:
        self.ensure(queue)
        with self._store() as store:
            store.exchanges.bind(
                exchange=exchange, exchange_type=exchange_type, pattern=pattern, queue=queue, selector=selector
            )

    def unbind(self, queue: str, exchange: str, pattern: str) -> None:
        with self._store() as store:
            store.exchanges.unbind(exchange=exchange, pattern=pattern, queue=queue)

    def size(self, name: str, limit: int) -> int:
        """Return how many messages a worker could be given now, counted up to the limit."""
        with self._store() as store:
            counts = store.queues.counts([name], limit=limit).get(name)
        return min(counts.deliverable, limit) if counts else 0

    def purge(self, name: str) -> int:
        """Remove the messages that no worker holds, except dead letters; return how many there were."""
        with suppress(UnknownQueue), self._store() as store:
            return store.deletions.purge(name, dead=False)
        return 0


#: RabbitMQ's argument that names the exchange for messages that no queue takes.
ALTERNATE = "alternate-exchange"
#: The types that an exchange can have.
TYPES = ("direct", "topic", "fanout", "headers")
#: How long a publisher of events remembers their exchange, in seconds: there are many events. Other exchanges are
#: read each time, because a queue may have been bound a moment ago.
REMEMBER_EVENTS_SECONDS = 0.5
#: How long what was written here is not read over the connection of the caller's transaction, in seconds.
FRESH_SECONDS = 5.0


class ExchangeTable:
    """The exchanges that one transport uses, written apart from the caller's transaction."""

    def __init__(self, committing: Committing, declarations: Declarations) -> None:
        self._store = committing
        self._reading = committing.reading
        self._declarations = declarations
        #: By name, the type and the alternate exchange of the exchanges that were declared here.
        self.declared: dict[str, tuple[str, str]] = {}
        self._known: dict[str, tuple[float, Exchange | None]] = {}
        # When an exchange or a binding of it was written here last.
        self._written: dict[str, float] = {}

    def declare(self, name: str, kind: str, alternate: str = "") -> None:
        """Create the exchange unless it exists.

        Raises ConfigurationError for an unknown type, and PreconditionFailed if the exchange has another type or
        another alternate exchange.
        """
        check_name(name)
        if kind not in TYPES:
            raise ConfigurationError(
                f"Exchange {name!r} has the type {shown(kind)}; use one of {', '.join(TYPES)}."
            )
        if alternate:
            check_name(alternate)
        with self._store() as store:
            known = store.exchanges.find(name)
            if known is None or not known.is_declared:
                store.exchanges.declare(name, exchange_type=kind, alternate=alternate)
                known = Exchange(name, kind, alternate=alternate)
                self.note_change(name)
        self.declared[name] = known.type, known.alternate
        for what, given, current in (("type", kind, known.type), (ALTERNATE, alternate, known.alternate)):
            if given != current:
                raise PreconditionFailed(
                    f"PRECONDITION_FAILED - inequivalent arg {what!r} for exchange {name!r}: received "
                    f"{given!r} but current is {current!r}. Delete the exchange to change it.",
                    (40, 10),
                    "Exchange.declare",
                )

    def find(self, name: str, *, inside: bool = False) -> Exchange | None:
        """Return an exchange, or None if there is none. That of events may be as it was a moment ago.

        It may be read ``inside`` the caller's transaction, which may be broken.
        """
        known = self._known.get(name)
        now = time.monotonic()
        if known is not None and now - known[0] < REMEMBER_EVENTS_SECONDS:
            return known[1]
        check_name(name)
        # The caller's transaction may see the tables as they were before.
        inside = inside and now - self._written.get(name, -FRESH_SECONDS) >= FRESH_SECONDS
        with self._reading() if inside else self._store() as store:
            found = store.exchanges.find(name)
        if name == current_app.conf.event_exchange:
            self._known[name] = (now, found)
        return found

    def type_of(self, name: str, method: str) -> str:
        """Return the type of an exchange. Raises NotFound, as a reply to the method."""
        if name in self.declared:
            return self.declared[name][0]
        found = self.find(name)
        if found is None:
            raise not_found(name, method)
        return found.type

    def note_change(self, name: str) -> None:
        """Note that the exchange or a binding of it was written."""
        self._known.pop(name, None)
        self._written[name] = time.monotonic()

    def delete(self, name: str) -> None:
        """Delete an exchange and its durable bindings."""
        self.note_change(name)
        self.declared.pop(name, None)
        with self._store() as store:
            store.exchanges.delete(name)

    def bind(self, destination: str, source: str, routing_key: str, selector: str) -> None:
        """Let the source pass messages on to the destination."""
        self.note_change(source)
        with self._store() as store:
            store.exchanges.bind_exchange(
                exchange=source, pattern=routing_key, destination=destination, selector=selector
            )

    def unbind(self, destination: str, source: str, routing_key: str) -> None:
        self.note_change(source)
        with self._store() as store:
            store.exchanges.unbind_exchange(exchange=source, pattern=routing_key, destination=destination)

    def reached(
        self, name: str, routing_key: str, message: Callable[[], Message], *, inside: bool
    ) -> Reached | None:
        """Return the queues that a message goes to, or None if the exchange does not exist."""
        find = partial(self._with_default, routing_key=routing_key, inside=inside)
        exchange = find(name)
        if exchange is None and name in self.declared:
            self.declare(name, *self.declared[name])  # Kombu does not, after the tables were emptied
            exchange = find(name)
        return None if exchange is None else queues_reached(exchange, routing_key, message, find)

    def _with_default(self, name: str, *, routing_key: str, inside: bool) -> Exchange | None:
        """Return an exchange with the default binding of a queue of the same name, which has no row."""
        exchange = self.find(name, inside=inside)
        if name != routing_key or not (exchange is None or exchange.type == "direct"):
            return exchange
        if not self._is_expected(name):
            return exchange
        exchange = exchange or Exchange(name, "direct", is_declared=False)
        others = tuple(route for route in exchange.routes if route.queue != name)
        return exchange._replace(routes=(*others, Route("direct", name, name)))

    def _is_expected(self, queue: str) -> bool:
        """Whether the queue exists, or the settings or the Celery app have it: its first use creates it."""
        return self._declarations.knows(queue) or queue in conf.load().QUEUES or queue in current_app.amqp.queues


def check_name(name: Any) -> None:
    """Raise InvalidMessage if no exchange can have this name."""
    validation.text(name, "The name of an exchange", limit=NAME_LENGTH)


#: AMQP's numbers of the methods that fail without their exchange.
METHODS = {
    "Basic.publish": (60, 40),
    "Exchange.bind": (40, 30),
    "Exchange.declare": (40, 10),
    "Queue.bind": (50, 20),
}


def not_found(exchange: str, method: str) -> NotFound:
    """Return the error that an AMQP broker raises for an exchange that was not declared."""
    reply = f"NOT_FOUND - no exchange {exchange!r}. Declare it, or bind a queue to it."
    return NotFound(reply, METHODS[method], method)
