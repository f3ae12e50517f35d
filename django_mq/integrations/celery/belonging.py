"""To whom a queue of the volatile lane belongs.

A volatile queue has no row. So that whoever publishes to its name finds it, its declarer leaves
a binding of the queue to itself, as AMQP binds each queue to the exchange without a name. An
exclusive queue has a second one that names its owner: one connection. It is renewed with the
lane's other bindings, and whoever else wants to use the queue is refused.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from amqp.exceptions import ResourceLocked

from django_mq.delivery.codecs import new_message_id

if TYPE_CHECKING:
    from django_mq.stores.base import Store

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
