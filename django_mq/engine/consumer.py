"""One subscription of one client to one queue."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.credit import Credit, WindowCredit

if TYPE_CHECKING:
    from collections import OrderedDict

    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message
    from django_mq.engine.queue import Queue
    from django_mq.engine.selector import Selector
    from django_mq.engine.target import Target
    from django_mq.engine.view import View


_logger: Final = logging.getLogger("django_mq.engine")


def tell(whom: Callable[[Any], None], what: Any) -> None:
    """Call ``whom``, and log what it raises.

    It is called in the middle of a change, under the lock. What it raised would leave the
    change half done: a message in two queues, or claimed and never handed over.
    """
    try:
        whom(what)
    except Exception:
        _logger.exception("What was told of %r has failed", what)


@dataclass(frozen=True, slots=True)
class Client:
    """The names a consumer's client goes by; None for one that is not known.

    Two consumers with the same name for the same thing belong to the same client.
    """

    #: One conversation on a connection.
    session: str | None = None
    connection: str | None = None
    #: The user, as authenticated.
    principal: str | None = None
    #: The application: it keeps this name over all its connections.
    container: str | None = None


#: The priority of a consumer that names none; larger is served first.
DEFAULT_CONSUMER_PRIORITY: Final = 0


class Interest(Enum):
    """What a consumer wants of its queue; it stands in exactly one of these sets."""

    #: Not subscribed.
    REMOVED = "removed"
    #: Idle: to be woken when there is something for it.
    INTERESTED = "interested"
    #: Woken, or busy pulling: it asks again by itself until it is answered None.
    NOTIFIED = "notified"
    #: Stuck at an entry it has too little credit for: it may not take a later, smaller one.
    BLOCKED = "blocked"
    #: Paused or out of credit.
    NOT_INTERESTED = "not interested"
    #: A browser that wants work; it competes with nobody.
    NON_ACQUIRING = "non-acquiring"


# Plain names, as in ``states``.
REMOVED: Final = Interest.REMOVED
INTERESTED: Final = Interest.INTERESTED
NOTIFIED: Final = Interest.NOTIFIED
BLOCKED: Final = Interest.BLOCKED
NOT_INTERESTED: Final = Interest.NOT_INTERESTED
NON_ACQUIRING: Final = Interest.NON_ACQUIRING


def _pulls_unasked(_: "Consumer") -> None:
    """The answer of a consumer that pulls without being told."""


class Consumer:
    """Who takes messages from a queue, how many at once, and before whom.

    ``wake`` is called with the consumer when there may be something for it, ``closed`` when
    the queue has closed it. Both are called under the queue's lock: they may set an event or
    append to a list, and must not call the queue. A consumer that was woken pulls until it
    is answered None.
    """

    __slots__ = (
        "auto_accept",
        "auto_close",
        "browser",
        "client",
        "closed",
        "credit",
        "exclusive",
        "from_tail",
        "home",
        "interest",
        "name",
        "no_local",
        "paused",
        "picky",
        "plain",
        "priority",
        "queue",
        "reserved",
        "selector",
        "settling",
        "stealable",
        "target",
        "transient",
        "unsettled",
        "view",
        "waiting_for",
        "wake",
    )

    def __init__(
        self,
        name: str,
        credit: Credit | None = None,
        *,
        priority: int = DEFAULT_CONSUMER_PRIORITY,
        selector: "Selector | None" = None,
        browser: bool = False,
        from_tail: bool = False,
        no_local: bool = False,
        exclusive: bool = False,
        transient: bool = False,
        stealable: bool = False,
        auto_accept: bool = False,
        auto_close: bool = False,
        client: "Client | None" = None,
        wake: "Callable[[Consumer], None]" = _pulls_unasked,
        closed: "Callable[[Consumer], None]" = _pulls_unasked,
    ) -> None:
        self.name = name
        #: Window credit without limits if none is given.
        self.credit = WindowCredit() if credit is None else credit
        #: Larger is served first.
        self.priority = priority
        #: Which messages it wants; None: all.
        self.selector = selector
        #: It sees every ready entry once and takes none.
        self.browser = browser
        #: It wants only what arrives after it.
        self.from_tail = from_tail
        #: It does not want what its own connection has published.
        self.no_local = no_local
        #: It wants the queue for itself.
        self.exclusive = exclusive
        #: It comes for a single message: it claims no exclusivity, and its going deletes no queue.
        self.transient = transient
        #: What it was sent may be taken back until it begins to settle.
        self.stealable = stealable
        #: What it was sent is accepted with the delivery.
        self.auto_accept = auto_accept
        #: It is closed when it has come to the end of the queue.
        self.auto_close = auto_close
        #: Whose it is.
        self.client = client
        self.wake = wake
        self.closed = closed
        self.paused = False
        #: Whether it may pass entries over, and therefore needs a position.
        self.picky = selector is not None or no_local
        #: Whether it takes whatever stands first, and nothing more is to be said of it.
        self.plain = not (self.picky or browser or from_tail or stealable or auto_accept or auto_close)
        self._stand_outside()

    def _stand_outside(self) -> None:
        """Be subscribed to nothing, and hold nothing."""
        #: The queue it is subscribed to.
        self.queue: Queue | None = None
        #: The owner of its credit, if it shares it with consumers of other queues.
        self.target: Target | None = None
        self.interest = REMOVED
        #: The set it stands in, so that leaving it needs no search.
        self.home: OrderedDict[Consumer, None] | None = None
        #: What was delivered and not yet settled, in order of delivery, with the claim number
        #: of each: credit was taken for exactly these.
        self.unsettled: dict[Entry, int] = {}
        #: What of it belongs to open units of work: it stays with them when the consumer leaves.
        self.settling: set[Entry] = set()
        #: Claimed for it while it was not looking, and to be handed over first.
        self.reserved: list[Entry] = []
        #: While blocked: the entry it is stuck at.
        self.waiting_for: Entry | None = None
        #: How far it has looked; None for one that takes whatever stands first.
        self.view: View | None = None

    @property
    def desires_work(self) -> bool:
        """Whether it is neither paused nor out of credit."""
        return not self.paused and self.credit.is_open

    def wants(self, entry: "Entry") -> bool:
        """Whether this entry is for it at all."""
        if entry.declined_by is not None and self in entry.declined_by:
            return False
        return not self.picky or self._selects(entry.message)

    def _selects(self, message: "Message") -> bool:
        if self.no_local and self.client is not None and message.connection == self.client.connection is not None:
            return False
        return self.selector is None or self.selector.matches(message)

    def could_take(self, entry: "Entry") -> bool:
        """Whether it wants the entry and has the credit for it."""
        return self.wants(entry) and self.credit.allows(entry.message.size)

    def settle(self, entry: "Entry", claim_number: int | None = None) -> bool:
        """Forget a delivery and take its credit back, whoever owns the entry by now.

        False, and nothing happens, if the entry was not delivered to this consumer, was
        settled before, or was delivered to it again since ``claim_number``.
        """
        if claim_number is None:
            if self.unsettled.pop(entry, None) is None:
                return False
        elif self.unsettled.get(entry) != claim_number:
            return False
        else:
            del self.unsettled[entry]
        self.credit.give_back(entry.message.size)
        return True
