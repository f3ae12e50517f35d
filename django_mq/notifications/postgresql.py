"""Hints between processes, through PostgreSQL itself: NOTIFY and LISTEN.

The table ``django_mq_idle`` has a row for each idle session. After its commit a publisher runs one statement for
each queue, in a transaction of its own: it deletes the rows of as many sessions as there are messages, and
notifies each on the channel of its process. Where no session is idle the statement writes nothing. A topic has a
channel for all that listen to it. ``stores/postgresql/sql/hints.sql`` has the statements.

    publisher ── the connection that has published, after the commit
    session ──── the listening connection, one for each process with sessions (``ListeningConnection``)

A session that registers always looks once before it sleeps: nothing is kept of news that found no idle session. A
process whose connection has ended is passed over, because its connection held a lock.
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary, finalize

from psycopg.errors import ProgramLimitExceeded

from django_mq.engine.decisions.backoff import Backoff
from django_mq.notifications.base import Listener, Notifier, Registration, Wake, notification_topic
from django_mq.notifications.gathering import MOMENT_SECONDS, Breaker, Gathering
from django_mq.outages import PAUSES, Outage
from django_mq.process import at_fork
from django_mq.seams.findings import ok, problem
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from django_mq.notifications.base import News
    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store
    from django_mq.stores.sql.database import Rows

logger = logging.getLogger("django_mq.notifications")
T = TypeVar("T")

#: A registration lasts so long unless it is renewed, which its session does so often, in seconds.
REGISTRATION_SECONDS, RENEWAL_SECONDS = 90.0, 30.0
#: A statement of the listening connection may take so long, and a notification to this process itself.
PATIENCE_SECONDS = 2.0
#: A thread that waits for the one before it looks so often whether it is still wanted.
TURN_SECONDS = 0.1
#: Time between two tries to listen where no notification arrives.
UNHEARD_PAUSES = Backoff(base_seconds=60.0)
#: While hints find no idle session again and again, they are sent so seldom, in seconds.
LONGEST_MOMENT_SECONDS = 0.04
#: What an outage costs, for the log.
LOST = "; hints are dropped, workers look regularly instead"


#: Why a connection that works hears nothing.
POOLED = (
    "the connection leads through a pooler that gives each transaction another connection; name a direct one in"
    " DJANGO_MQ['LISTEN_DATABASE']"
)
ELSEWHERE = (
    "no notification came back; name a direct connection to the same database and schema in"
    " DJANGO_MQ['LISTEN_DATABASE']"
)
#: From this part on, the server's queue of notifications is a problem. When it is full, hints are dropped.
FULL = 0.5


class UnheardError(Exception):
    """The connection works, but notifications do not arrive over it."""


#: Part of the error of a pooler that does not know the options of a worker's connection.
REFUSED = "unsupported startup parameter"


class PostgreSQLNotifier(Notifier):
    """Announces news and notifies topics, in the database of the queues."""

    reaches_others = True

    def __init__(self, alias: str, *, listen_alias: str | None = None) -> None:
        self.alias = alias
        self._listen_alias = listen_alias
        # Publishers and the listening connection log it together.
        self._outage = Outage("PostgreSQL's NOTIFY", logger)
        self.line = ListeningConnection(alias, listen_alias, self._outage)
        self._breaker = Breaker()
        self._gathering = Gathering(
            self._announce,
            grace_seconds=MOMENT_SECONDS,
            longest_moment_seconds=LONGEST_MOMENT_SECONDS,
            on_quiet=self._close_sender,
        )
        # The connection of the thread that sends what a burst leaves, until it ends.
        self._sender: Store | None = None

    def send(self, topics: Iterable[str], *, over: Store | None = None) -> None:
        if named := list(topics):
            self.ask(lambda database: database.run_unseen("notify_topics", {"topics": named}), over)

    def announce(self, news: Mapping[str, News], *, may_wait: bool = False, over: Store | None = None) -> None:
        if may_wait and self._gathering.keep(news):
            return
        self._announce(self._gathering.with_kept(news), over)

    def _announce(self, news: Mapping[str, News], over: Store | None = None) -> None:
        self.ask(partial(self._notify, news), over)

    def _notify(self, news: Mapping[str, News], database: Any) -> None:
        """Notify idle sessions. What is due later needs one, unless one looks by then."""
        for queue, item in news.items():
            asked_at, wanted = time.monotonic(), item.messages
            if item.due_seconds is not None:
                rows = database.run_unseen("looks_by", {"queue": queue, "due": item.due_seconds})
                wanted += not (rows and rows[0][0])
            topic = notification_topic(queue, back=item.back)
            params = {"queue": queue, "wanted": wanted, "topic": topic, "own_lock": self.line.lock_number}
            notified = database.count_unseen("announce", params) if wanted else None
            if notified is not None:
                self._gathering.answered((queue,), asked_at, notified)

    def ask(self, question: Callable[[Any], T], over: Store | None = None) -> T | None:
        """Ask a database, in transactions of their own; return the answer, None if that fails. Never raises."""
        if not self._breaker.lets_through(PATIENCE_SECONDS):
            return None
        try:
            answer = self._ask(question, over)
        except Exception as error:  # noqa: BLE001 - a publisher must not fail, for any error here
            self._breaker.failed()
            self._outage.failed(self, error, LOST)
            if isinstance(error, ProgramLimitExceeded):
                self._make_room(over)
            return None
        self._breaker.succeeded()
        self._outage.succeeded(self)
        return answer

    def _make_room(self, over: Store | None) -> None:
        """Empty a full queue of notifications of what all sessions have read: nothing else does."""
        with suppress(Exception):
            self._ask(lambda database: database.run_unseen("notification_usage", {}), over)

    def _ask(self, question: Callable[[Any], T], over: Store | None) -> T | None:
        if over is not None and over.alias == self.alias:
            if over.database.in_transaction:
                return None  # what a test runs before its commit, which never comes
            return question(over.database)
        if self.line.connected:
            return self.line.ask(question)
        # A process that publishes keeps no connection that its project did not open, and threads share none.
        sender: Any = (self._sender if self._gathering.runs_here else None) or private_store(self.alias)
        try:
            return question(sender.database)
        finally:
            if self._gathering.runs_here:
                self._sender = sender
            else:
                sender.close()

    def _close_sender(self) -> None:
        if self._sender is not None:
            self._sender.close()

    def listen(self, wake: Wake) -> PostgreSQLListener:
        return PostgreSQLListener(self, wake)

    def findings(self) -> Iterator[Finding]:
        error = self.problem()
        if not error:
            yield ok("hints", "A notification went through PostgreSQL and came back.")
            return
        mend = "Do what the error says, or correct LISTEN_DATABASE or HINTS. Until then workers look regularly."
        if REFUSED in error:
            mend = (
                "A pooler refuses the options of a worker. Set DISABLE_SERVER_SIDE_CURSORS to True for the"
                " database, and name a direct connection in DJANGO_MQ['LISTEN_DATABASE'], or set HINTS to 'none'."
            )
        yield problem("hints", f"A notification did not come back: {error}", mend)

    def problem(self) -> str:
        """Return why notifications do not come back, or nothing."""
        line = ListeningConnection(self.alias, self._listen_alias, self._outage)
        try:
            line.connect()
        except Exception as error:  # noqa: BLE001 - any error is the answer
            return str(error) or type(error).__name__
        finally:
            line.disconnect(line.store)
        if line.usage < FULL:
            return ""
        return (
            f"the server's queue of notifications is {line.usage:.0%} full: end the oldest transaction of a"
            " connection that listens"
        )


class PostgreSQLListener(Listener):
    """Hears hints for one session, over the listening connection of the process."""

    renewal_seconds = RENEWAL_SECONDS

    def __init__(self, notifier: PostgreSQLNotifier, wake: Wake) -> None:
        self._notifier = notifier
        self._line = notifier.line
        self.wake = wake
        self.name = os.urandom(8).hex()
        self.topics: frozenset[str] = frozenset()
        #: Whether all its topics are listened to.
        self.is_ready = False
        # Until when, and under which lock, it is registered; 0 if it is not.
        self._registered_until, self._lock_number = 0.0, 0
        # When another session looks for what is due here.
        self._due_at: float | None = None
        # Whether PostgreSQL took the last registration: without it the session is not notified.
        self._known = True
        self._pid = os.getpid()

    def subscribe(self, topics: Iterable[str]) -> None:
        if os.getpid() != self._pid:
            return
        wanted = frozenset(topics)
        if wanted - self.topics:
            self.is_ready = False
        self.topics = wanted
        self._line.serve(self)

    def register_idle(
        self,
        queues: Collection[str],
        *,
        due_seconds: float | None = None,
        following: bool = False,
        priority: int = 0,
    ) -> Registration:
        self._known = False
        if not self._hears:
            return Registration(due_seconds=due_seconds)  # no notification could reach this session
        now, lock_number = time.monotonic(), self._line.lock_number
        due = due_seconds
        if following and self._due_at is not None:
            due = max(0.0, self._due_at - now)
        # Before the statement: a notification may come with its answer.
        is_new = now > self._registered_until or lock_number != self._lock_number
        self._registered_until, self._lock_number = now + REGISTRATION_SECONDS / 2, lock_number
        params = self._line.registration(self.name, queues, priority=priority, due=due)
        rows: Rows | None = None
        if self._line.connected:
            rows = self._notifier.ask(lambda database: database.run_unseen("register_idle", params))
        if not rows:
            return Registration(due_seconds=due_seconds)
        self._known = True
        is_new_row, waits, ask_seconds = rows[0]
        self._due_at = None if ask_seconds is None else now + ask_seconds
        return Registration(is_new or is_new_row, due if waits else None, ask_seconds)

    def withdraw(self, answered: Collection[str] = ()) -> None:  # noqa: ARG002 - a notification is not answered
        if self._registered_until and self._hears:
            self._registered_until = 0.0
            params = {"session": self.name}
            self._notifier.ask(lambda database: database.run_unseen("unregister_idle", params))

    def hear(self, notification: str) -> None:
        """Take a notification: the session is no longer registered."""
        self._registered_until = 0.0
        self.wake.set(notification)

    @property
    def connected(self) -> bool:
        return self._hears and self._known

    @property
    def _hears(self) -> bool:
        return self.is_ready and self._line.connected and os.getpid() == self._pid

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        self.withdraw()
        self._line.leave(self)


class ListeningConnection:
    """The connection of this process that listens, and speaks for its sessions. It is open while there are any.

    A thread opens it, listens, and opens it again. A forked child begins with none.
    """

    def __init__(self, alias: str, listen_alias: str | None, outage: Outage) -> None:
        self._alias = alias
        self._listen_alias = listen_alias
        self._outage = outage
        self._begin()
        at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.connected = False
        #: The number of the lock that the connection holds, and the channel of this process.
        self.lock_number = 0
        self.channel = f"django_mq_{os.urandom(16).hex()}"
        #: How full the server's queue of notifications was, as a part of 1.
        self.usage = 0.0
        #: The store over the connection.
        self.store: Any = None
        # Weak: a session that is dropped without being closed must not keep the connection open.
        self._listeners: WeakValueDictionary[str, PostgreSQLListener] = WeakValueDictionary()
        # Channels that are listened to, and their topics.
        self._topics: dict[str, str] = {}
        self._has_echoed = False
        self._bell: Wake | None = None
        self._thread: threading.Thread | None = None
        # Held while a thread begins or ends, and while one runs a statement. Neither is waited for for ever: its
        # owner may be what a signal's handler has interrupted.
        self._starting, self._speaking = threading.RLock(), threading.Lock()
        # Held by the one thread that has the connection open.
        self._turn = threading.Lock()

    # What sessions ask.

    def serve(self, listener: PostgreSQLListener) -> None:
        """Listen to what the listener wants, soon."""
        thread: threading.Thread | None = None
        with self._starting:
            if listener.name not in self._listeners:
                self._listeners[listener.name] = listener
                finalize(listener, self._left).atexit = False
            if self._thread is None and listener.topics:
                self._bell = Wake()
                run = partial(self._run, self._bell)
                thread = self._thread = threading.Thread(target=run, name="django_mq-hints", daemon=True)
            elif self._bell is not None:
                self._bell.set()
        if thread is not None:
            # Without the lock: before the new thread says that it has begun, it may collect a listener as garbage,
            # and wait for the lock.
            thread.start()

    def leave(self, listener: PostgreSQLListener) -> None:
        """Forget the listener; the connection ends with the last one."""
        self._listeners.pop(listener.name, None)
        if (thread := self._left()) and thread.ident is not None:
            thread.join(timeout=2 * PATIENCE_SECONDS)

    def _left(self) -> threading.Thread | None:
        """Adjust to the listeners that are left; return the thread that ends if there is none."""
        with self._starting:
            thread, bell = self._thread, self._bell
            if bell is None:
                return None
            # Not their number: it counts one that is being collected.
            is_wanted = any(True for _ in self._listeners.values())
            if not is_wanted:
                self._thread = self._bell = None
            bell.set()  # only now: the thread ends when the bell is no longer this connection's
            return None if is_wanted else thread

    def registration(
        self, session: str, queues: Collection[str], *, priority: int = 0, due: float | None = None
    ) -> dict[str, Any]:
        """Return the parameters that register a session of this process as idle."""
        return {
            "session": session,
            "channel": self.channel,
            "own_lock": self.lock_number,
            "queues": list(queues),
            "priority": priority,
            "due": due,
            "seconds": REGISTRATION_SECONDS,
        }

    def ask(self, question: Callable[[Any], T]) -> T:
        """Ask the database. Raises any error of the driver; the connection is then opened again."""
        if not self._speaking.acquire(timeout=PATIENCE_SECONDS):
            raise TimeoutError("the listening connection is busy")
        try:
            return question(self.store.database)
        except BaseException:
            self.connected = False
            if self._bell is not None:
                self._bell.set()
            raise
        finally:
            self._speaking.release()

    # The thread.

    def _run(self, bell: Wake) -> None:
        while self._bell is bell:
            # The thread before this one may still have to close its connection. It must not close the new one.
            if self._turn.acquire(timeout=TURN_SECONDS):
                try:
                    self._keep_open(bell)
                finally:
                    self._turn.release()
        bell.close()

    def _keep_open(self, bell: Wake) -> None:
        failures = 0
        while self._bell is bell:
            pauses = PAUSES
            try:
                self.connect()
                failures = 0
                self._outage.succeeded(self)
                self._listen(bell)
            except Exception as error:  # noqa: BLE001 - the thread must survive any error
                self._outage.failed(self, error, LOST)
                if isinstance(error, UnheardError):
                    pauses = UNHEARD_PAUSES
            self.disconnect(self.store)
            failures += 1
            end = time.monotonic() + pauses.spread(failures)
            while self._bell is bell and (left := end - time.monotonic()) > 0:
                bell.wait(left)
        self._outage.leave(self)

    def connect(self) -> None:
        """Open the connection, and see that a notification comes back. Raises what goes wrong."""
        self.store = private_store(self._listen_alias or self._alias)
        database = self.store.database
        database.expect_answers(PATIENCE_SECONDS)
        with database.alone():
            database.connection.ensure_connection()
            driver = database.connection.connection
            if self._listen_alias is None and driver.info.backend_pid != database.backend():
                raise UnheardError(POOLED)
            driver.add_notify_handler(lambda heard: self._heard(heard.channel, heard.payload))
            self.usage = database.run_unseen("notification_usage", {})[0][0]
            self.lock_number = random.randint(1, 2**31 - 1)  # noqa: S311 - not a secret
            limit = f"{PATIENCE_SECONDS * 1000:.0f}"
            database.run_unseen("hold_listener_lock", {"own_lock": self.lock_number, "limit": limit})
            driver.execute(f"LISTEN {self.channel}")
        self._topics, self._has_echoed = {}, False
        self._send_echo()
        self.connected = True

    def _send_echo(self) -> None:
        """Be notified over the way that publishers take. Raises UnheardError if that does not arrive."""
        topic = notification_topic(self.channel)
        announced = {"queue": self.channel, "wanted": 1, "topic": topic, "own_lock": self.lock_number}
        database = self.store.database
        # A session and a queue that nothing else names.
        database.run_unseen("register_idle", self.registration(self.channel, [self.channel]))
        separate: Any = None if self._listen_alias in (None, self._alias) else private_store(self._alias)
        try:
            publisher = database if separate is None else separate.database
            publisher.count_unseen("announce", announced)
        finally:
            if separate is not None:
                separate.close()
        end = time.monotonic() + PATIENCE_SECONDS
        while not self._has_echoed:
            left = end - time.monotonic()
            if left <= 0:
                raise UnheardError(ELSEWHERE)
            select.select([self.store.database.connection.connection.fileno()], [], [], left)
            self._hear()

    def _listen(self, bell: Wake) -> None:
        poller = select.poll()
        poller.register(self.store.database.connection.connection.fileno(), select.POLLIN)
        poller.register(bell.fileno(), select.POLLIN)
        while self.connected and self._bell is bell:
            self._adjust()
            poller.poll()
            bell.clear()
            self._hear()

    def _adjust(self) -> None:
        """Listen to what the listeners want now, and tell those that had to wait for it."""
        listeners = list(self._listeners.values())
        wanted = frozenset[str]().union(*(listener.topics for listener in listeners))
        before = {topic: channel for channel, topic in self._topics.items()}
        if wanted != before.keys():
            added = sorted(wanted - before.keys())
            rows = self.ask(lambda database: database.run_unseen("topic_channels", {"topics": added}))
            channels = [row[0] for row in rows]
            gone = [before[topic] for topic in before.keys() - wanted]
            self._topics = {**self._topics, **dict(zip(channels, added, strict=True))}
            commands = [*(f"LISTEN {name}" for name in channels), *(f"UNLISTEN {name}" for name in gone)]
            with self.store.database.alone():
                self.store.database.connection.connection.execute("; ".join(commands))
            self._topics = {channel: topic for channel, topic in self._topics.items() if topic in wanted}
        for listener in listeners:
            if not listener.is_ready and listener.topics <= wanted:
                listener.is_ready = True
                listener.wake.set()  # hints may have been missed

    def _hear(self) -> None:
        """Take what has arrived. Raises psycopg's OperationalError when the connection has ended."""
        with self.store.database.alone():
            server: Any = self.store.database.connection.connection.pgconn
            server.consume_input()
            while heard := server.notifies():
                self._heard(heard.relname.decode(), heard.extra.decode(errors="replace"))

    def _heard(self, channel: str, payload: str) -> None:
        if channel != self.channel:
            topic = self._topics.get(channel)
            for listener in list(self._listeners.values()):
                if topic in listener.topics:
                    listener.wake.set(topic)
            return
        name, _, notification = payload.partition(" ")
        if name == self.channel:
            self._has_echoed = True
        elif notified := self._listeners.get(name):
            notified.hear(notification)

    def disconnect(self, store: Store | None) -> None:
        """Close the connection: nothing is heard until it is open again."""
        self.connected = False
        for listener in list(self._listeners.values()):
            listener.is_ready = False
        if store is not None:
            with suppress(Exception):  # it may be in any state
                store.close()
