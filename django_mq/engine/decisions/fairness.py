"""The place of a message in a queue whose keys share by weight: start-time fair queueing.

A message gets its place when it is ready for the first time, and keeps it. So a claim reads the index of
places, as in any queue. The place is the larger of two numbers: the *present place* of the level, which is the
place of the next message, and the *finish* of its key, which is where the last message of the key ends. So a key
that was idle begins at the present place, and a key with a million messages stands behind itself only.

Publishers wait for nothing. A key has a *counter* for each publisher that is writing at the same time: a row with
the finish that this publisher has reached. A publisher takes the first counter that no other has locked. It cannot
see what the others write, so it knows only how many they are: the counters before its own. It leaves a place to
each. Places of single messages are then the same as those of one publisher. Of several large batches at
the same time, the second one writes half as densely as the first one, the third one a third, and so on.

Fair places are below the ordinary place. A message with the ordinary place has not got its place yet, and stands
last.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django_mq.engine.decisions.places import ORDINARY_PLACE, PLACE_OFFSET
from django_mq.engine.message import header_text
from django_mq.errors import InvalidMessage, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django_mq.engine.message import Message

#: How far a message of weight 1 moves the finish of its key.
STEP: Final = 2**20
#: The most characters of a key.
LONGEST_KEY: Final = 255
#: The bounds of a weight. With the least, a level has room for 40,000 million messages.
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0
DEFAULT_WEIGHT: Final = 1.0
#: The first and the last fair place.
FIRST: Final = -PLACE_OFFSET
LAST: Final = ORDINARY_PLACE - 1
#: How many messages at the head of a level the present place is read from.
HEAD: Final = 20


class Fairness(NamedTuple):
    """The header whose values share the queue, and the weights of values; others have the weight 1.

    A publisher that knows the arguments of a message adds the header to one that has none, see ``with_key``.
    """

    header: str
    weights: Mapping[str, float]

    def key_of(self, message: Message) -> str:
        """Return the key: the header's text; blank for a message without the header."""
        return header_text(message, self.header) or ""

    def weight_of(self, key: str) -> float:
        return self.weights.get(key, DEFAULT_WEIGHT)

    def check(self, message: Message, queue: str) -> None:
        """Raise InvalidMessage for a key that is too long."""
        length = len(self.key_of(message))
        if length > LONGEST_KEY:
            raise InvalidMessage(
                f"The header {shown(self.header)} has {length:,} characters. Its values share the queue"
                f" {shown(queue)}, so it has at most {LONGEST_KEY}."
            )

    def with_key(self, headers: Mapping[str, Any], argument: object) -> Mapping[str, Any]:
        """Return the headers, with the argument if the header is missing; what is no scalar is no key."""
        if self.header in headers or not isinstance(argument, str | int | float):
            return headers
        return {**headers, self.header: argument}


@lru_cache(maxsize=128)
def fairness_of(header: str, weights: str) -> Fairness:
    """Return the rule for the two options of a queue; a line that is no weight is ignored."""
    return Fairness(header, {key: weight for key, weight in _lines(weights) if weight is not None})


def problems_of(weights: str) -> Iterator[str]:
    """Yield a sentence for each line that says no weight."""
    for key, weight in _lines(weights):
        if weight is None:
            yield (
                f"fair_weights has the line {shown(key)}: write a value of the header, '=', and a number "
                f"from {LEAST_WEIGHT} to {MOST_WEIGHT:g}, as in 'acme=4'"
            )


def _lines(weights: str) -> Iterator[tuple[str, float | None]]:
    """Yield each key with its weight, or the line with None if it says no weight."""
    for line in filter(None, map(str.strip, weights.splitlines())):
        key, _, number = line.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = 0.0
        is_weight = "=" in line and LEAST_WEIGHT <= weight <= MOST_WEIGHT
        yield (key.strip(), weight) if is_weight else (line, None)


def stored_key(key: str) -> str:
    """Return a key as stores keep it: of one length, and equal only for equal keys in any collation.

    >>> stored_key("acme") == stored_key("Acme"), len(stored_key("acme" * 1000))
    (False, 32)
    """
    return blake2b(key.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def present_place(head: Sequence[tuple[int, bool]], seen: int, latest: int) -> int:
    """Return the present place of a level.

    ``head`` has the first ready messages at or behind ``seen``, ``HEAD`` at most: the place of each, and whether
    it has come back. A message that has come back may be far behind the others, so the place of another one
    counts. ``seen`` is the greatest present place that a publisher has seen, and ``latest`` the greatest finish
    of all keys; FIRST if there is none. If no message waits, all keys begin at ``latest``: no key has an
    advantage from before.

    >>> present_place([(3, True), (7, False)], seen=2, latest=50), present_place([], seen=2, latest=50)
    (7, 50)
    """
    for place, has_come_back in head:
        if not has_come_back:
            return place
    return head[-1][0] if len(head) >= HEAD else max(seen, latest)


class Turns(NamedTuple):
    """The places of new messages of one key, in order, and the finish of the key behind them."""

    places: list[int]
    finish: int


def turns(number: int, weight: float, *, present: int, finish: int = FIRST, ahead: int = 0) -> Turns:
    """Return the places of so many messages of a key, one or more.

    ``ahead`` is how many other publishers of the key are writing, which the ``finish`` does not show yet.

    >>> [(place - FIRST) // STEP for place in turns(3, 0.5, present=FIRST).places]
    [0, 2, 4]
    """
    step = max(1, round(STEP / weight))
    start = max(present, finish) + ahead * step
    places = [min(start + each * (ahead + 1) * step, LAST) for each in range(number)]
    return Turns(places, min(places[-1] + step, LAST))


def is_placed(place: int) -> bool:
    """Whether a message has its fair place; SQL says the same as ``place < 0``."""
    return place < ORDINARY_PLACE
