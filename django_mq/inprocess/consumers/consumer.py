"""One subscription of one client to one queue."""

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from django_mq.engine.decisions.credit import Credit, WindowCredit

if TYPE_CHECKING:
    from collections import OrderedDict

    from django_mq.engine.message import Message
    from django_mq.engine.selector import Selector
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.entries.view import View


_logger: Final = logging.getLogger("django_mq.engine")


def tell(callback: Callable[[Any], None], argument: Any) -> None:
    """Make a callback, and log what it raises.

    The call is made under the lock, in the middle of a change. An exception would leave the
    change half done: a message in two queues, or claimed and never delivered.
    """
    try:
        callback(argument)
    except Exception:
        _logger.exception("The callback of %r has failed", argument)


@dataclass(frozen=True, slots=True)
class Client:
    """The session, connection, user and application of a consumer; None for each that is not known.

    Two consumers with the same name for the same thing belong to the same client.
    """

    #: A session on a connection.
    session: str | None = None
    connection: str | None = None
    #: The user, as authenticated.
    principal: str | None = None
    #: The application, which has this name on all its connections.
    container: str | None = None


#: A larger priority is served first.
DEFAULT_CONSUMER_PRIORITY: Final = 0


class Interest(Enum):
    """Whether a consumer wants entries; a consumer has exactly one of these values."""

    #: Not subscribed.
    REMOVED = "removed"
    #: Idle: woken when there is an entry for it.
    INTERESTED = "interested"
    #: Woken, or busy: it pulls until the queue returns None.
    NOTIFIED = "notified"
    #: Stuck at an entry that its credit does not cover: it may not take a later, smaller one.
    BLOCKED = "blocked"
    #: Paused or out of credit.
    NOT_INTERESTED = "not interested"
    #: A browser that wants entries; it does not compete for them.
    NON_ACQUIRING = "non-acquiring"


# Plain names, as in ``states``.
REMOVED: Final = Interest.REMOVED
INTERESTED: Final = Interest.INTERESTED
NOTIFIED: Final = Interest.NOTIFIED
BLOCKED: Final = Interest.BLOCKED
NOT_INTERESTED: Final = Interest.NOT_INTERESTED
NON_ACQUIRING: Final = Interest.NON_ACQUIRING


class CreditSharer(Protocol):
    """What has consumers of several queues that share one credit: a target."""

    def credit_changed(self, origin: "Consumer | None" = None) -> None: ...


def _pulls_unasked(_: "Consumer") -> None:
    """Do nothing: the consumer pulls without being woken."""


@dataclass(slots=True, eq=False, repr=False)
class Consumer:
    """One subscription to one queue, with its credit and its priority.

    ``wake`` is called with the consumer when there may be an entry for it, ``closed`` when
    the queue has closed it. Both are called under the queue's lock: they may set an event or
    append to a list, and must not call the queue. After a wake, the consumer pulls until the queue
    returns None.
    """

    name: str
    #: Default: window credit without limits.
    credit: Credit = None  # type: ignore[assignment]
    _: KW_ONLY
    priority: int = DEFAULT_CONSUMER_PRIORITY
    #: The messages that it wants; None: all.
    selector: "Selector | None" = None
    #: It is shown every ready entry once and takes none.
    browser: bool = False
    #: It wants only messages that arrive after it.
    from_tail: bool = False
    #: It does not want messages published on its own connection.
    no_local: bool = False
    #: No other consumer may subscribe to the queue.
    exclusive: bool = False
    #: It subscribes for a single message: it claims no exclusivity, and deletes no queue when it leaves.
    transient: bool = False
    #: The queue may take its entries back until it begins to settle them.
    stealable: bool = False
    #: The delivery accepts the entry.
    auto_accept: bool = False
    #: The queue closes it when it has reached the end of the queue.
    auto_close: bool = False
    client: "Client | None" = None
    wake: "Callable[[Consumer], None]" = _pulls_unasked
    closed: "Callable[[Consumer], None]" = _pulls_unasked

    paused: bool = field(init=False, default=False)
    #: Whether it may skip entries, and therefore needs a position.
    picky: bool = field(init=False)
    #: Whether it takes the first entry, and has no other option: the queue then takes the short path.
    plain: bool = field(init=False)
    #: The ``Queue`` that it is subscribed to, with which its entries are settled; None before.
    queue: Any = field(init=False, default=None)
    #: The owner of its credit, if consumers of other queues share that credit.
    target: "CreditSharer | None" = field(init=False, default=None)
    interest: Interest = field(init=False, default=REMOVED)
    #: The set that contains it, so that leaving needs no search.
    home: "OrderedDict[Consumer, None] | None" = field(init=False, default=None)
    #: Entries delivered and not yet settled, in order of delivery, each with its claim number.
    #: Credit was taken for exactly these.
    unsettled: "dict[Entry, int]" = field(init=False, default_factory=dict)
    #: Those of them in open units of work: they stay there when the consumer leaves.
    settling: "set[Entry]" = field(init=False, default_factory=set)
    #: Entries claimed for it by ``publish``; its next calls of ``deliver`` return these first.
    reserved: "list[Entry]" = field(init=False, default_factory=list)
    #: While blocked: the entry that its credit does not cover.
    waiting_for: "Entry | None" = field(init=False, default=None)
    #: How far it has looked; None if it always takes the first entry.
    view: "View | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.credit = WindowCredit() if self.credit is None else self.credit
        self.picky = self.selector is not None or self.no_local
        special = self.browser or self.from_tail or self.stealable or self.auto_accept or self.auto_close
        self.plain = not (self.picky or special)

    @property
    def desires_work(self) -> bool:
        """Whether the consumer is not paused and has credit."""
        return not self.paused and self.credit.is_open

    def wants(self, entry: "Entry") -> bool:
        """Whether the entry matches the selector, and the consumer has not declined it."""
        if entry.declined_by is not None and self in entry.declined_by:
            return False
        return not self.picky or self._selects(entry.message)

    def _selects(self, message: "Message") -> bool:
        if self.no_local and self.client is not None and message.connection == self.client.connection is not None:
            return False
        return self.selector is None or self.selector.matches(message)

    def could_take(self, entry: "Entry") -> bool:
        """Whether the consumer wants the entry and has the credit for it."""
        return self.wants(entry) and self.credit.allows(entry.message.size)

    def settle(self, entry: "Entry", claim_number: int | None = None) -> bool:
        """Forget a delivery and take its credit back, even if the entry has another owner by now.

        Return False, and change nothing, if the entry was not delivered to this consumer, was
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


def holder_of(entry: "Entry") -> Consumer | None:
    """Return the consumer that holds a claimed entry; None if none does."""
    return cast("Consumer | None", entry.owner)
