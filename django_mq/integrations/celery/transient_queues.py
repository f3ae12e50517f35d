"""Transient queues: remote control, its replies, and events.

Queues that are declared auto-deleting or exclusive live here: their messages are small rows
that whoever reads deletes and age sweeps away, never rows of the hot table.
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
from weakref import WeakValueDictionary

from amqp.exceptions import ResourceLocked

from django_mq.delivery.codecs import new_message_id
from django_mq.engine.routing import queues_matching
from django_mq.errors import StoreError
from django_mq.integrations.celery.message import body_of, urgency
from django_mq.notifications.base import volatile_topic
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.celery")

#: A binding lives so long, in seconds, unless renewed; so a dead worker stops receiving commands.
BINDING_SECONDS = 60.0
#: A command or an event that nobody fetches lives so long, in seconds: its readers are there now or never.
MESSAGE_SECONDS = 60.0
#: What was addressed to one queue lives so long, in seconds: whoever waits for an ``rpc://`` result may be slow.
ADDRESSED_SECONDS = 3600.0
#: A publisher of events believes its last look at a topic exchange's bindings for so long, in
#: seconds. Commands and replies are few, and a queue bound a moment ago may be waiting for one.
REMEMBER_SECONDS = 0.5


class TransientQueues:
    """The volatile queues of one transport."""

    def __init__(self, store: Callable[[], AbstractContextManager[Store]], *, redis_order: bool = False) -> None:
        self._store = store
        self._redis_order = redis_order
        #: Names of the volatile queues declared here, or found where another connection had declared them.
        self.queues: set[str] = set()
        self._owner = Owner()
        self._owned: set[str] = set()
        # Those of the queues that were declared here, and are bound to themselves.
        self._announced: set[str] = set()
        self._bound: dict[tuple[str, str, str], str] = {}
        self._renew_at = 0.0
        self._known: dict[str, tuple[float, list[tuple[str, str]]]] = {}

    def declare(self, queue: str, *, exclusive: bool = False) -> None:
        """Have a volatile queue, for this connection alone if it is exclusive. Raises ResourceLocked."""
        if not is_mailbox(queue):
            if queue not in self._announced:
                self._announce(queue)
            if exclusive and queue not in self._owned:
                self._own(queue)
        self.queues.add(queue)

    def _announce(self, queue: str) -> None:
        with self._store() as store:
            self._owner.refuse_others_queue(store, queue)
            bind_to_itself(store, queue, seconds=ADDRESSED_SECONDS)
        self._announced.add(queue)

    def _own(self, queue: str) -> None:
        with self._store() as store:
            self._owner.take(store, queue, seconds=BINDING_SECONDS)
        self._owned.add(queue)
        self.purge(queue)  # of what was left to an owner before

    def find(self, queue: str) -> bool:
        """Whether there is such a queue, whoever declared it; from now on it can be used here, too.

        Raises ResourceLocked if it is another connection's.
        """
        if queue in self.queues:
            return True
        with self._store() as store:
            found = is_volatile(store, queue)
            if found:
                self._owner.refuse_others_queue(store, queue)
                self.queues.add(queue)
        return found

    def refuse_others_queue(self, queue: str) -> None:
        """Raise ResourceLocked if the queue is another connection's."""
        if queue not in self.queues:
            with self._store() as store:
                self._owner.refuse_others_queue(store, queue)

    def reaches(self, queue: str) -> bool:
        """Whether what is published to this name is volatile: anybody may publish to anybody's queue."""
        if queue in self.queues:
            return True
        with self._store() as store:
            return is_volatile(store, queue)

    def bind(self, queue: str, exchange: str, exchange_type: str, pattern: str) -> None:
        """Bind a volatile queue, and keep the binding alive as long as ``renew`` is called."""
        self._bound[exchange, pattern, queue] = exchange_type
        self._known.pop(exchange, None)
        self._write_binding(queue, exchange, exchange_type, pattern)

    def _write_binding(self, queue: str, exchange: str, exchange_type: str, pattern: str) -> None:
        with self._store() as store:
            store.volatile_bind(
                exchange=exchange,
                exchange_type=exchange_type,
                pattern=pattern,
                queue=queue,
                seconds=BINDING_SECONDS,
            )

    def renew(self) -> list[str]:
        """Renew this transport's bindings, when a third of their life is over.

        Return exclusive queues that were not renewed in time, and are another connection's now.
        """
        now = time.monotonic()
        if now < self._renew_at:
            return []
        self._renew_at = now + BINDING_SECONDS / 3
        lost = self._renew_owned()
        for (exchange, pattern, queue), exchange_type in list(self._bound.items()):
            self._write_binding(queue, exchange, exchange_type, pattern)
        with self._store() as store:
            for queue in self._announced:
                bind_to_itself(store, queue, seconds=ADDRESSED_SECONDS)
        return lost

    def _renew_owned(self) -> list[str]:
        if not self._owned:
            return []
        with self._store() as store:
            lost = [queue for queue in self._owned if self._owner.others(store, queue)]
            for queue in self._owned.difference(lost):
                self._owner.keep(store, queue, seconds=BINDING_SECONDS)
        for queue in lost:
            logger.error("%s", locked(queue, "it was not read for a minute, and another connection took it"))
            self._forget(queue)
        return lost

    def bound_queues(self, exchange: str, exchange_type: str, routing_key: str) -> list[str]:
        """Return the volatile queues that a message to the exchange goes to."""
        patterns = self._patterns(exchange, believe=exchange_type == "topic")
        return queues_matching([(exchange_type, pattern, queue) for pattern, queue in patterns], routing_key)

    def _patterns(self, exchange: str, *, believe: bool) -> list[tuple[str, str]]:
        known = self._known.get(exchange)
        if believe and known is not None and time.monotonic() - known[0] < REMEMBER_SECONDS:
            return known[1]
        with self._store() as store:
            patterns = store.volatile_bindings(exchange)
        self._known[exchange] = (time.monotonic(), patterns)
        return patterns

    def put(self, queues: list[str], message: dict[str, Any]) -> None:
        """Leave a message for each queue and hint at once: no transaction is involved."""
        text = message | {"body": body_of(message).decode("utf-8", "surrogateescape")}
        with self._store() as store:
            store.volatile_put(queues, json.dumps(text, default=str), seconds=_lifetime_seconds(message))
        notifier().send({volatile_topic(queue) for queue in queues})

    def take(self, queues: list[str], *, limit: int = 100) -> list[tuple[str, dict[str, Any]]]:
        """Take what waits in these queues, as (queue, message): the more urgent first, then the older."""
        with self._store() as store:
            found = store.volatile_take(queues, limit=limit)
        taken = [(queue, _loaded(payload)) for queue, payload in found]
        return sorted(taken, key=lambda pair: -self._urgency(pair[1]))

    def _urgency(self, message: dict[str, Any]) -> int:
        return urgency(message["properties"].get("priority"), redis_order=self._redis_order)

    def drop(self, queue: str) -> int:
        """Forget a queue; return how many messages it held."""
        self._forget(queue)
        with self._store() as store:
            return store.volatile_drop(queue)

    def _forget(self, queue: str) -> None:
        for known in (self.queues, self._owned, self._announced):
            known.discard(queue)
        for key in [key for key in self._bound if key[2] == queue]:
            del self._bound[key]

    def purge(self, queue: str) -> int:
        """Remove the messages of a queue; return how many there were."""
        count = 0
        with self._store() as store:
            while taken := store.volatile_take([queue]):
                count += len(taken)
        return count

    def close(self) -> None:
        """Delete the exclusive queues: they end with their connection."""
        with suppress(StoreError):  # they end by themselves when nobody renews them
            for queue in tuple(self._owned):
                self.drop(queue)


def _lifetime_seconds(message: dict[str, Any]) -> float:
    properties = message["properties"]
    expiration = properties.get("expiration")
    if expiration not in (None, ""):
        return max(0.0, int(expiration) / 1000)
    return MESSAGE_SECONDS if properties["delivery_info"].get("exchange") else ADDRESSED_SECONDS


def _loaded(payload: str) -> dict[str, Any]:
    """Return the message with the bytes of its body, which may be no text."""
    message: dict[str, Any] = json.loads(payload)
    return message | {"body": message["body"].encode("utf-8", "surrogateescape")}


# Which connection a transient queue belongs to.
#
# A volatile queue has no row. So that a publisher finds it by its name, its declarer leaves
# a binding of the queue to itself, as AMQP binds each queue to the exchange without a name. An
# exclusive queue has a second one that names its owner: one connection. It is renewed with the
# other bindings, and every other connection that wants to use the queue is refused.

#: A queue's binding to itself names this exchange and the queue. AMQP keeps ``amq.`` for the broker.
OWN = "amq.queue:"
#: The longest name of an exchange that the table takes.
LONGEST = 200


class Owner:
    """One connection, as what may own queues. It is gone with its process, or when nobody refers to it."""

    def __init__(self) -> None:
        self.token = f"{_place()}/{os.getpid()}/{new_message_id()}"
        _living[self.token] = self

    def others(self, store: Store, queue: str) -> list[str]:
        """Return the living owners of a queue besides this one: one at most, but for an instant."""
        return [token for token in owners(store, queue) if token != self.token and not is_gone(token)]

    def refuse_others_queue(self, store: Store, queue: str) -> None:
        """Raise ResourceLocked if the queue is another connection's."""
        if self.others(store, queue):
            raise locked(queue, "it is exclusive to another connection")

    def take(self, store: Store, queue: str, *, seconds: float) -> None:
        """Become the queue's owner for so long, or raise ResourceLocked.

        Who looks after it wrote cannot overlook another who did the same: of two at the same instant
        both may be refused, but never neither.
        """
        self.refuse_others_queue(store, queue)
        self.keep(store, queue, seconds=seconds)
        try:
            self.refuse_others_queue(store, queue)
        except ResourceLocked:
            self.keep(store, queue, seconds=0)
            raise

    def keep(self, store: Store, queue: str, *, seconds: float) -> None:
        """Own the queue for so long, from now on."""
        bind_to_itself(store, queue, seconds=seconds, token=self.token)


#: The owners of this process.
_living: WeakValueDictionary[str, Owner] = WeakValueDictionary()


def bind_to_itself(store: Store, queue: str, *, seconds: float, token: str = "") -> None:
    """Say for so long that the queue is volatile, or whose it is."""
    store.volatile_bind(
        exchange=own_exchange(queue), exchange_type="direct", pattern=token, queue=queue, seconds=seconds
    )


def is_volatile(store: Store, queue: str) -> bool:
    """Whether anybody has declared the queue volatile."""
    return any(queue == bound for _, bound in store.volatile_bindings(own_exchange(queue)))


def owners(store: Store, queue: str) -> list[str]:
    """Return the tokens of those who own the queue."""
    return [token for token, bound in store.volatile_bindings(own_exchange(queue)) if token and queue == bound]


def own_exchange(queue: str) -> str:
    """Return the exchange that stands for a queue's name."""
    name = f"{OWN}{queue}"
    return name if len(name) <= LONGEST else f"{OWN}{sha256(queue.encode()).hexdigest()}"


def is_mailbox(queue: str) -> bool:
    """Whether remote control reads the queue, which it declares exclusive and addresses through exchanges only.

    Two workers of one name may start, as on Redis, and a killed one may be started again at once.
    """
    return queue.endswith(".pidbox")


def locked(queue: str, why: str) -> ResourceLocked:
    """Return the refusal, as an AMQP broker words it."""
    return ResourceLocked(f"RESOURCE_LOCKED - queue {queue!r}: {why}.", (50, 10), "Channel.queue_declare", 405)


def is_gone(token: str) -> bool:
    """Whether an owner is known to have ended: only of those on this machine anything is known."""
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
        pass  # somebody else's
    return True


def _place() -> str:
    """Name what process ids belong to: a machine, or a container on it."""
    space = ""
    with suppress(OSError):  # only Linux has it
        space = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()[:100]}:{space}"
