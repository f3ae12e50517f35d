"""Transient queues: remote control, its replies, events, and the results of ``rpc://``.

A mailbox, a queue of events or of replies that is declared auto-deleting or exclusive is a transient queue. Its
messages are small rows of a table of their own: the reader deletes them, and maintenance deletes old ones. Any
other queue is durable, because tasks may come to it.

A transient queue has no row of its own. It has a binding to itself, so that publishers find it by its name; AMQP
likewise binds each queue to the exchange without a name. An exclusive queue, durable or not, has a binding to
itself with the token of the owning connection as its pattern. Bindings expire unless they are renewed.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import WeakValueDictionary

from amqp.exceptions import PreconditionFailed, ResourceLocked
from celery import current_app

from django_mq.delivery.codecs import new_message_id
from django_mq.errors import StoreError
from django_mq.integrations.celery.message import TRANSIENT_QUEUE, body_of, expiration_seconds, urgency
from django_mq.notifications.base import volatile_topic
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.celery")

#: How long a binding lives, in seconds, unless it is renewed. So nothing is written for a dead worker for long.
BINDING_SECONDS = 60.0
#: How long a command or an event waits for its reader, in seconds.
MESSAGE_SECONDS = 60.0
#: How long a message to one queue waits, such as an ``rpc://`` result, and how long a queue's binding to itself
#: lives, in seconds.
ADDRESSED_SECONDS = 3600.0
#: What Celery's queues of events begin with, unless it is set otherwise.
EVENTS = "celeryev"
#: What the names of queues that were declared without a name begin with.
GENERATED = "amq.gen-"
#: The exchange of a queue's binding to itself is this prefix and the queue's name. AMQP reserves ``amq.``.
OWN = "amq.queue:"
#: The longest name of an exchange that the table takes.
LONGEST = 200


class TransientQueues:
    """The transient queues of one transport, which is one connection."""

    def __init__(self, store: Callable[[], AbstractContextManager[Store]], *, redis_order: bool = False) -> None:
        self._store = store
        self._redis_order = redis_order
        #: The queues that were declared here, or found where another connection had declared them.
        self.queues: set[str] = set()
        #: Durable queues in whose place the previous version has a transient queue, which may have tasks.
        self.inherited: set[str] = set()
        self.token = f"{_place()}/{os.getpid()}/{new_message_id()}"
        _living[self.token] = self
        # Exchange, pattern and queue to the exchange's type and the binding's life in seconds.
        self._bindings: dict[tuple[str, str, str], tuple[str, float]] = {}
        self._renew_at = 0.0

    def declare(self, queue: str, *, exclusive: bool = False) -> None:
        """Declare a queue, for this connection alone if it is exclusive.

        Raises ResourceLocked if the queue is exclusive to another connection.
        """
        if not is_mailbox(queue):
            self._bind_to_itself(queue, "", ADDRESSED_SECONDS)
            if exclusive and self.lock(queue):
                self.purge(queue)  # the messages are for an earlier owner
        self.queues.add(queue)

    def lock(self, queue: str) -> bool:
        """Make a queue exclusive to this connection; return False if it was before. Raises ResourceLocked."""
        return self._bind_to_itself(queue, self.token, BINDING_SECONDS)

    def _bind_to_itself(self, queue: str, token: str, seconds: float) -> bool:
        binding, kind = (own_exchange(queue), token, queue), "direct"
        if binding in self._bindings:
            return False
        self.check_access(queue)
        self._write([(binding, (kind, seconds))])
        if token:
            # Check again after writing: two connections may both be refused, but cannot both succeed.
            try:
                self.check_access(queue)
            except ResourceLocked:
                self._write([(binding, (kind, 0))])
                raise
        self._bindings[binding] = kind, seconds
        return True

    def _write(self, bindings: Iterable[tuple[tuple[str, str, str], tuple[str, float]]]) -> None:
        with self._store() as store:
            for (exchange, pattern, queue), (kind, seconds) in bindings:
                store.volatile.bind(
                    exchange=exchange, exchange_type=kind, pattern=pattern, queue=queue, seconds=seconds
                )

    def _tokens(self, queue: str) -> list[str]:
        """Return the patterns of the queue's bindings to itself: an empty list if the queue is not transient."""
        with self._store() as store:
            return [token for token, bound in store.volatile.bindings(own_exchange(queue)) if bound == queue]

    def check_access(self, queue: str) -> None:
        """Raise ResourceLocked if the queue is exclusive to another connection."""
        self._check_owner(queue, self._tokens(queue))

    def check_durable(self, queue: str) -> None:
        """Raise ResourceLocked as ``check_access``, and PreconditionFailed if a queue of replies is transient."""
        tokens = self._tokens(queue)
        self._check_owner(queue, tokens)
        if "" in tokens and has_no_tasks(queue):
            raise PreconditionFailed(
                f"PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue {queue!r}: it is a transient "
                "queue. For tasks use a name that is no UUID.",
                (50, 10),
                "Queue.declare",
            )

    def _check_owner(self, queue: str, tokens: list[str]) -> None:
        if self._is_owned_elsewhere(tokens):
            raise locked(queue, "it is exclusive to another connection")

    def _is_owned_elsewhere(self, tokens: list[str]) -> bool:
        return any(token not in {"", self.token} and not is_gone(token) for token in tokens)

    def find(self, queue: str, *, to_publish: bool = False) -> bool:
        """Return whether any connection has declared the queue transient. If so, this connection can use it, too.

        Raises ResourceLocked if it is exclusive to another connection, unless it is only ``to_publish``.
        """
        if queue in self.queues:
            return True
        tokens = self._tokens(queue)
        if tokens and not to_publish:
            self._check_owner(queue, tokens)
            self.queues.add(queue)
        return bool(tokens)

    def bind(self, queue: str, exchange: str, exchange_type: str, pattern: str) -> None:
        """Bind a queue. The binding stays as long as ``renew`` is called."""
        binding = exchange, pattern, queue
        self._bindings[binding] = exchange_type, BINDING_SECONDS
        self._write([(binding, self._bindings[binding])])

    def unbind(self, queue: str, exchange: str, pattern: str) -> None:
        """Remove a binding. The connection that made it must call this: another one would renew it."""
        binding = exchange, pattern, queue
        self._bindings.pop(binding, None)
        self._write([(binding, ("direct", 0))])  # it ends at once: its type does not matter

    def renew(self) -> list[str]:
        """Renew the bindings when a third of their life is over.

        Return the exclusive queues that were not renewed in time and now belong to another connection.
        """
        now = time.monotonic()
        if now < self._renew_at or not self._bindings:
            return []
        self._renew_at = now + BINDING_SECONDS / 3
        lost = [queue for queue in self._owned if self._is_owned_elsewhere(self._tokens(queue))]
        for queue in lost:
            logger.error("%s", locked(queue, "it was not read for a minute, and another connection took it"))
            self._forget(queue)
        self._write(list(self._bindings.items()))
        return lost

    @property
    def _owned(self) -> list[str]:
        return [queue for _, token, queue in self._bindings if token == self.token]

    def put(self, queues: list[str], message: dict[str, Any]) -> None:
        """Write a message for each queue and hint at once. It joins no transaction."""
        text = message | {"body": body_of(message).decode("utf-8", "surrogateescape")}
        text.pop(TRANSIENT_QUEUE, None)
        with self._store() as store:
            store.volatile.put(queues, json.dumps(text, default=str), seconds=_lifetime_seconds(message))
            notifier().send({volatile_topic(queue) for queue in queues}, over=store)

    def take(self, queues: list[str], *, limit: int = 100) -> list[tuple[str, dict[str, Any]]]:
        """Take the messages of these queues, as (queue, message): the more urgent first, then the older."""
        with self._store() as store:
            found = store.volatile.take(queues, limit=limit)
        taken = [(queue, loaded(payload) | {TRANSIENT_QUEUE: queue}) for queue, payload in found]
        return sorted(taken, key=lambda pair: -self._urgency(pair[1]))

    def _urgency(self, message: dict[str, Any]) -> int:
        return urgency(message["properties"].get("priority"), redis_order=self._redis_order)

    def delete(self, queue: str, *, if_empty: bool = False) -> int:
        """Delete a queue; return how many messages it had. With ``if_empty`` one with messages stays."""
        with self._store() as store:
            if if_empty and store.volatile.is_waiting([queue]):
                return 0
            self._forget(queue)
            return store.volatile.drop(queue)

    def _forget(self, queue: str) -> None:
        self.queues.discard(queue)
        self.inherited.discard(queue)
        for binding in [binding for binding in self._bindings if binding[2] == queue]:
            del self._bindings[binding]

    def purge(self, queue: str) -> int:
        """Remove the messages of a queue; return how many there were."""
        count = 0
        with self._store() as store:
            while taken := store.volatile.take([queue]):
                count += len(taken)
        return count

    def close(self) -> list[str]:
        """Delete the exclusive queues that are transient, and unlock the durable ones; return these."""
        unlocked = []
        with suppress(StoreError):  # their bindings expire
            for queue in self._owned:
                if queue in self.queues:
                    self.delete(queue)
                else:
                    self.unlock(queue)
                    unlocked.append(queue)
        return unlocked

    def unlock(self, queue: str) -> None:
        """Let other connections use an exclusive queue."""
        binding = own_exchange(queue), self.token, queue
        if self._bindings.pop(binding, None) is not None:
            self._write([(binding, ("direct", 0))])


def _lifetime_seconds(message: dict[str, Any]) -> float:
    properties = message["properties"]
    given = expiration_seconds(properties)
    if given is not None:
        return given
    return MESSAGE_SECONDS if properties["delivery_info"].get("exchange") else ADDRESSED_SECONDS


def loaded(payload: str) -> dict[str, Any]:
    """Return a message of a transient queue as Kombu has it."""
    message: dict[str, Any] = json.loads(payload)
    body = message["body"].encode("utf-8", "surrogateescape")  # a body may be any bytes
    message["properties"]["delivery_tag"] = str(new_message_id())  # Kombu needs one
    return message | {"body": body}


def own_exchange(queue: str) -> str:
    """Return the exchange of a queue's bindings to itself."""
    name = f"{OWN}{queue}"
    return name if len(name) <= LONGEST else f"{OWN}{sha256(queue.encode()).hexdigest()}"


def is_mailbox(queue: str) -> bool:
    """Return whether the queue is a mailbox of Celery's remote control.

    Celery declares a mailbox exclusive. It is not kept exclusive here: two workers with one name may start, as on
    Redis, and a killed worker may start again at once. A mailbox gets its messages through exchanges only, so it
    needs no binding to itself.
    """
    return queue.endswith(".pidbox")


def is_reply(message: dict[str, Any], queue: str) -> bool:
    """Return whether this is the result of a call, for a queue with the id of its caller.

    Celery does not declare that queue in a pool process, and elsewhere its binding may have expired. The queue
    is transient all the same: in a durable queue, results that are not fetched would stay for ever.
    """
    return not is_task(message) and bool(message["properties"].get("correlation_id")) and is_id(queue)


def is_task(message: dict[str, Any]) -> bool:
    """Return whether the message is a Celery task."""
    return "task" in message["headers"]


def is_id(text: str) -> bool:
    """Return whether a text is the id of a program, as Celery and Kombu write it."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def has_no_tasks(queue: str) -> bool:
    """Return whether a queue is a mailbox of remote control, for events or for the replies to one program.

    Declared auto-deleting or exclusive, it is a transient queue.
    """
    events = f"{EVENTS}.", f"{current_app.conf.event_queue_prefix}."
    return is_mailbox(queue) or is_id(queue) or queue.startswith(events)


def is_anonymous(queue: str) -> bool:
    """Return whether no other program can ever declare the queue: its name has an id, as a broadcast's."""
    return queue.startswith(GENERATED) or is_id(queue.rpartition(".")[2])


def locked(queue: str, why: str) -> ResourceLocked:
    """Return the error that an AMQP broker raises for a queue that is exclusive to another connection."""
    return ResourceLocked(f"RESOURCE_LOCKED - queue {queue!r}: {why}.", (50, 10), "Channel.queue_declare", 405)


#: The open connections of this process, by token. A connection leaves when nothing refers to it.
_living: WeakValueDictionary[str, TransientQueues] = WeakValueDictionary()


def is_gone(token: str) -> bool:
    """Return whether the connection of a token has certainly ended; False for connections of other machines."""
    place, _, rest = token.partition("/")
    pid = rest.partition("/")[0]
    if place != _place() or not pid.isdigit():
        return False
    return token not in _living if int(pid) == os.getpid() else not _runs(int(pid))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's process
    return True


def _place() -> str:
    """Return a name for the machine or the container, within which process ids are unique."""
    space = ""
    with suppress(OSError):  # only Linux has it
        space = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()[:100]}:{space}"
