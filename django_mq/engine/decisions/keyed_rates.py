"""How many messages of each key may begin in a time: throttles of a queue.

What is over a throttle waits. A key comes from the message: its group, its type, or one of its headers. A message
without the key is not throttled, and so is one of another type, where the throttle names a type.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.claim_limits import Refusal
from django_mq.engine.decisions.rates import UNUSED, Rate, after_use, wait_seconds
from django_mq.engine.message import header_text
from django_mq.errors import OutOfRange, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from django_mq.engine.decisions.rates import Used
    from django_mq.engine.message import Message
    from django_mq.engine.options import QueueOptions

#: The most characters of the name of a throttle.
NAME_CHARACTERS: Final = 50
#: The most characters of a key. Longer ones are told apart by their first characters and their length.
KEY_CHARACTERS: Final = 200
#: What names a header as the key.
HEADER: Final = "header:"


@dataclass(frozen=True, slots=True)
class Throttle:
    """How many messages of a key may begin in a time.

    ``key`` is "" for all messages of the queue together, "group", "type", or "header:" with the name of a header.
    ``weight`` names a header with the number that a message counts as; it is 1 without the header.
    """

    name: str
    rate: Rate
    key: str = ""
    type: str = ""
    weight: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.isidentifier() and len(self.name) <= NAME_CHARACTERS):
            raise OutOfRange(
                f"The name of a throttle is {shown(self.name)}; use an identifier of at most"
                f" {NAME_CHARACTERS} characters."
            )
        is_header = isinstance(self.key, str) and self.key.startswith(HEADER) and self.key != HEADER
        if self.key not in {"", "group", "type"} and not is_header:
            raise OutOfRange(
                f"The key of the throttle {self.name!r} is {shown(self.key)}; use '', 'group', 'type' or"
                " 'header:' with the name of a header."
            )

    def key_of(self, message: Message) -> str | None:
        """Return the key of a message, None if the throttle is not for it."""
        if self.type and message.type != self.type:
            return None
        if self.key == "":
            return ""
        if self.key == "group":
            found = message.group
        elif self.key == "type":
            found = message.type or None
        else:
            found = header_text(message, self.key.removeprefix(HEADER))
        if found is None or len(found) <= KEY_CHARACTERS:
            return found
        return f"{found[:KEY_CHARACTERS]}… ({len(found)})"

    def weight_of(self, message: Message) -> float:
        """Return the number that a message counts as: 1 where the header is no number above 0."""
        value = message.headers.get(self.weight) if self.weight else None
        if not isinstance(value, int | float) or isinstance(value, bool):
            return 1.0
        return float(value) if isfinite(value) and value > 0 else 1.0

    def problem_in(self, queue: QueueOptions) -> str | None:
        """Return why a queue with these options cannot have the throttle, as a sentence; None if it can."""
        if queue.strict:
            return "A strict queue ends at the first message that must wait, so it has no throttle."
        if queue.has_groups and self.key not in {"", "group"}:
            return "In a queue with groups, the key of a throttle is the group: others could overtake in a group."
        return None


class OpenThrottles:
    """The throttles of a queue, for one claim."""

    def __init__(
        self,
        throttles: Sequence[Throttle],
        *,
        now: float,
        used: Mapping[tuple[str, str], Used],
        held: Mapping[tuple[str, str], float],
        exceptions: Mapping[tuple[str, str], Rate],
        write: Callable[[Mapping[tuple[str, str], Used]], None],
    ) -> None:
        self._throttles, self._now, self._write = throttles, now, write
        self._before, self._held, self._exceptions = used, held, exceptions
        self._used = dict(used)

    def refuses(self, message: Message) -> Refusal | None:
        """Return the longest wait of all throttles."""
        waits = [
            Refusal(f"{throttle.name}:{key}", seconds)
            for throttle, key in self._keys(message)
            if (seconds := self._wait(throttle, key, message)) > 0
        ]
        return max(waits, key=lambda refusal: refusal.seconds or 0.0, default=None)

    def takes(self, message: Message) -> None:
        self._take(self._used, message)

    def writes(self, taken: Sequence[tuple[int, Message]]) -> None:
        """Write what the leased messages have used; those that were taken and not leased have used nothing."""
        used = dict(self._before)
        changed = {place for _, message in taken for place in self._take(used, message)}
        self._write({place: used[place] for place in changed})

    def _keys(self, message: Message) -> Iterator[tuple[Throttle, str]]:
        for throttle in self._throttles:
            if (key := throttle.key_of(message)) is not None:
                yield throttle, key

    def _rate(self, throttle: Throttle, key: str) -> Rate:
        return self._exceptions.get((throttle.name, key), throttle.rate)

    def _wait(self, throttle: Throttle, key: str, message: Message) -> float:
        place = throttle.name, key
        held = self._held.get(place, self._now) - self._now
        rate, used = self._rate(throttle, key), self._used.get(place, UNUSED)
        return max(held, wait_seconds(rate, used, self._now, throttle.weight_of(message)))

    def _take(self, used: dict[tuple[str, str], Used], message: Message) -> list[tuple[str, str]]:
        places = []
        for throttle, key in self._keys(message):
            place = throttle.name, key
            before, weight = used.get(place, UNUSED), throttle.weight_of(message)
            used[place] = after_use(self._rate(throttle, key), before, self._now, weight)
            places.append(place)
        return places
