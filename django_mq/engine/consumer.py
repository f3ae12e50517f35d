"""One subscription of one client to one queue."""

from enum import Enum
from typing import TYPE_CHECKING, Final

from django_mq.engine.credit.base import Credit
from django_mq.engine.credit.window import WindowCredit
from django_mq.engine.view import View

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable

    from django_mq.engine.entry import Entry

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
    """The wake-up of a consumer that pulls without being told."""


class Consumer:
    """Who takes messages from a queue, how many at once, and before whom.

    ``wake`` is called with the consumer when there may be something for it. It is called
    under the queue's lock: it may set an event or append to a list, and must not call the
    queue. A consumer that was woken pulls until it is answered None.
    """

    __slots__ = (
        "credit",
        "home",
        "interest",
        "name",
        "paused",
        "priority",
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
        browser: bool = False,
        wake: "Callable[[Consumer], None]" = _pulls_unasked,
    ) -> None:
        self.name = name
        #: Window credit without limits if none is given.
        self.credit = credit or WindowCredit()
        self.priority = priority
        self.wake = wake
        self.paused = False
        self.interest = REMOVED
        #: The set it stands in, so that leaving it needs no search.
        self.home: OrderedDict[Consumer, None] | None = None
        #: What was delivered and not yet settled, in order of delivery, with the claim number
        #: of each: credit was taken for exactly these.
        self.unsettled: dict[Entry, int] = {}
        #: While blocked: the entry it is stuck at.
        self.waiting_for: Entry | None = None
        #: Of a browser, which sees every ready entry once and takes none; else None.
        self.view = View() if browser else None

    def __repr__(self) -> str:
        return f"<Consumer {self.name} {self.interest.value}>"

    @property
    def desires_work(self) -> bool:
        """Whether it is neither paused nor out of credit."""
        return not self.paused and self.credit.is_open

    @property
    def browser(self) -> bool:
        """Whether it only looks."""
        return self.view is not None

    def wants(self, entry: "Entry") -> bool:
        """Whether this entry is for it at all."""
        return entry.declined_by is None or self not in entry.declined_by

    def could_take(self, entry: "Entry") -> bool:
        """Whether it wants the entry and has the credit for it."""
        return self.wants(entry) and self.credit.allows(entry.message.size)

    def settle(self, entry: "Entry", claim_number: int | None = None) -> bool:
        """Forget a delivery and take its credit back, whoever owns the entry by now.

        False, and nothing happens, if the entry was not delivered to this consumer, was
        settled before, or was delivered to it again since ``claim_number``.
        """
        current = self.unsettled.get(entry)
        if current is None or (claim_number is not None and claim_number != current):
            return False
        del self.unsettled[entry]
        self.credit.give_back(entry.message.size)
        return True
