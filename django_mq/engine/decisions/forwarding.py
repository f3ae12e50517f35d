"""What of the claimed messages a bridge may send now, and what becomes of them by the broker's answers."""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.verdict import Decision, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping


class BrokerAnswer(Enum):
    """What the broker, or its silence, says of a message."""

    #: The broker has the message, as far as it promises that at all.
    CONFIRMED = auto()
    #: No queue of the broker wants it.
    RETURNED = auto()
    #: The broker will never take it.
    REFUSED = auto()
    #: The broker does not take it now: its queue may be full, or most nodes of a quorum queue may be away.
    NOT_NOW = auto()
    #: Nothing can be said: the connection is gone. The broker may have it.
    LOST = auto()


class Answered(NamedTuple):
    """What the broker says of a message, or of all up to it."""

    answer: BrokerAnswer
    tag: int
    words: str = ""
    multiple: bool = False


#: What becomes of a message. None counts as an attempt but those after which it is dead.
DECISIONS: Final[Mapping[BrokerAnswer, Decision]] = {
    BrokerAnswer.CONFIRMED: Decision(Verdict.FORWARD),
    BrokerAnswer.RETURNED: Decision(Verdict.DEAD, counted=True),
    BrokerAnswer.REFUSED: Decision(Verdict.DEAD, counted=True),
    BrokerAnswer.NOT_NOW: Decision(Verdict.RELEASE),
    BrokerAnswer.LOST: Decision(Verdict.RELEASE),
}
#: How the reason of a dead letter begins.
REASONS: Final[Mapping[BrokerAnswer, str]] = {
    BrokerAnswer.RETURNED: "returned by the bridge",
    BrokerAnswer.REFUSED: "refused by the bridge",
}


#: A bridge holds so many times as many messages as may be on the way.
PAGES: Final = 4


class Sendable(Protocol):
    """A claimed message."""

    @property
    def queue_name(self) -> str: ...
    @property
    def group_key(self) -> str | None: ...


Item = TypeVar("Item", bound=Sendable)


def reason_of(answer: BrokerAnswer, bridge: str, words: str) -> str:
    """Return the reason of a dead letter."""
    return f"{REASONS[answer]} {bridge}: {words}"


def pause_after(failures: int, most_seconds: float) -> float:
    """Return how long to wait after so many tries to reach the broker have failed, one after the other."""
    return Backoff(base_seconds=0.5, multiplier=2, cap_seconds=most_seconds).delay(failures)


#: A worker that ends when all is empty tries to reach the broker so often.
MOST_TRIES: Final = 3


def is_given_up(failures: int, blocked_seconds: float, most_seconds: float) -> bool:
    """Return whether a worker that ends when all is empty ends without what waits for the broker.

    ``failures`` are tries to reach it that have failed, one after the other; ``blocked_seconds`` says for how long
    it has taken nothing over an open connection.
    """
    return failures >= MOST_TRIES or blocked_seconds > most_seconds


class Flights(Generic[Item]):
    """The messages that a bridge has claimed: those on the way, and those that wait.

    Messages of a group are on the way one after the other: the next one when the broker has answered for the one
    before. So are those of a queue whose order is strict. If the broker closes the channel because of a message
    and does not say which one, the next messages go alone, until as many are answered as were on the way.
    """

    def __init__(self, most: int, is_strict: Callable[[str], bool] = lambda _: False) -> None:
        self._most = most
        self._is_strict = is_strict
        self._ready: deque[Item] = deque()
        # By group, what waits until the one before is answered: an entry while one is ready or on the way.
        self._behind: dict[Hashable, deque[Item]] = {}
        self._on_way: dict[int, Item] = {}
        self._alone = 0

    def __len__(self) -> int:
        return len(self._ready) + len(self._on_way) + sum(map(len, self._behind.values()))

    @property
    def on_way(self) -> int:
        """How many are on the way."""
        return len(self._on_way)

    def credit(self) -> int:
        """Return how many more to claim: pages wait while one is on the way."""
        return max(0, PAGES * self._most - len(self))

    def offer(self, items: Iterable[Item]) -> None:
        """Take what was claimed, in its order."""
        for item in items:
            line = self._line_of(item)
            if line is None:
                self._ready.append(item)
            elif line in self._behind:
                self._behind[line].append(item)
            else:
                self._behind[line] = deque()
                self._ready.append(item)

    def _line_of(self, item: Item) -> Hashable | None:
        if self._is_strict(item.queue_name):
            return item.queue_name
        return None if item.group_key is None else (item.queue_name, item.group_key)

    def next(self) -> Item | None:
        """Return what may be sent now, which waits no more; None if nothing may."""
        if not self._ready or len(self._on_way) >= (1 if self._alone else self._most):
            return None
        return self._ready.popleft()

    def sent(self, tag: int, item: Item) -> None:
        """Note that a message is on the way under the number of its delivery."""
        self._on_way[tag] = item

    def answered(self, tag: int, *, multiple: bool = False) -> list[tuple[int, Item]]:
        """Return the message of this delivery, or all up to it; what waited behind them may be sent now."""
        tags = [each for each in self._on_way if each <= tag] if multiple else [tag]
        done = [(each, self._on_way.pop(each)) for each in tags if each in self._on_way]
        self._alone = max(0, self._alone - len(done))
        for _, item in done:
            self.ended(item)
        return done

    def ended(self, item: Item) -> None:
        """Let the next message of its group be sent."""
        line = self._line_of(item)
        if line is not None and line in self._behind:
            if behind := self._behind[line]:
                self._ready.append(behind.popleft())
            else:
                del self._behind[line]

    def lost(self, *, by_message: bool = False) -> tuple[list[Item], Item | None]:
        """Return all that was claimed, in order, and the message that is to blame for the loss, if it is known.

        ``by_message``: the broker has closed the channel because of one of those on the way.
        """
        on_way, blamed = list(self._on_way.values()), None
        if by_message and len(on_way) == 1:
            [blamed] = on_way
            on_way = []
        self._alone = len(on_way) if by_message else 0
        return [*on_way, *self.waiting()], blamed

    def withdrawn(self, queues: Collection[str]) -> list[Item]:
        """Return what waits of these queues, and hold it no more; what is on the way stays."""
        back = [item for item in self._ready if item.queue_name in queues]
        self._ready = deque(item for item in self._ready if item.queue_name not in queues)
        for behind in self._behind.values():
            back += [item for item in behind if item.queue_name in queues]
            if behind and behind[0].queue_name in queues:
                behind.clear()
        on_way = {self._line_of(item) for item in self._on_way.values()}
        for line in {self._line_of(item) for item in back} - on_way:
            self._behind.pop(line, None)
        return back

    def waiting(self) -> list[Item]:
        """Return what is not on the way, in the order of each group, and hold nothing any more."""
        waiting = [*self._ready, *(item for behind in self._behind.values() for item in behind)]
        self._ready.clear()
        self._behind.clear()
        self._on_way.clear()
        return waiting
