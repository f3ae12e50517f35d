"""Which handler of a worker gets a message, where the handlers of a queue have selectors.

A message belongs to the first handler, in the order of declaration, whose selector matches it. A worker claims
only messages that belong to one of its handlers, and of each handler no more than it has credit for. SQL has the
same rule in ``condition_of`` of ``django_mq/stores/sql/conditions.py``.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from random import Random
from typing import Generic, NamedTuple, TypeVar

from django_mq.engine.message import Message
from django_mq.engine.selector import Selector, tokens
from django_mq.errors import MalformedSelector

C = TypeVar("C")
#: How many messages to make up in search of one that two selectors match.
MOST_EXAMPLES = 2000


class Wanted(NamedTuple):
    """What one handler wants, and how many messages it may have now."""

    selector: Selector
    limit: int


def selector_for(message_type: str, selector: str = "") -> str:
    """Return the selector of a handler of one type of messages, which may also have a selector of its own."""
    quoted = message_type.replace("'", "''")
    return f"JMSType = '{quoted}'" + (f" AND ({selector})" if selector else "")


def first_matching(selectors: Iterable[Selector], message: Message) -> int | None:
    """Return the number of the first selector that matches, None if none does."""
    return next((number for number, each in enumerate(selectors) if each.matches(message)), None)


def selections_of(own: Container[str], every: Iterable[str]) -> dict[str, str]:
    """Return what a worker's own selectors select, beside those that other workers of its process have.

    ``every`` are the selectors of the process, in the order in which they are asked.
    """
    found: dict[str, str] = {}
    others: list[str] = []
    for selector in every:
        if selector in own:
            found[selector] = _unless(selector, others)
        else:
            others.append(selector)
    return found


def _unless(selector: str, others: Sequence[str]) -> str:
    """Return a selector of what this one matches and none of the others does."""
    if not others:
        return selector
    # Another one that is unknown does not match. NOT 1 is unknown, so this OR is never false.
    none = f"({' OR '.join(f'({other})' for other in others)} OR NOT 1) IS NULL"
    return f"({selector}) AND {none}" if selector else none


def may_want(texts: Iterable[str], message: Message) -> bool:
    """Whether a session whose consumers have these selectors may want a message.

    A selector that only another version can parse may match any message.
    """
    return any((selector := _known(text)) is None or selector.matches(message) for text in texts)


@lru_cache(maxsize=1024)
def _known(text: str) -> Selector | None:
    try:
        return Selector(text)
    except MalformedSelector:
        return None


class Assignment(Generic[C]):
    """What the handlers of a worker want of one queue; ``message_of`` reads a candidate."""

    def __init__(self, wanted: Sequence[Wanted], message_of: Callable[[C], Message]) -> None:
        self._wanted = wanted
        self._selectors = [each.selector for each in wanted]
        self._message_of = message_of
        self._taken = Counter[int]()

    def handler_of(self, candidate: C) -> int | None:
        """Return the number of the handler that a candidate belongs to, None for none."""
        return first_matching(self._selectors, self._message_of(candidate))

    def wants(self, candidate: C) -> bool:
        """Whether a candidate belongs to any handler."""
        return self.handler_of(candidate) is not None

    def is_full(self, candidate: C) -> bool:
        """Whether the handler of a candidate cannot have it now."""
        number = self.handler_of(candidate)
        return number is not None and self._taken[number] >= self._wanted[number].limit

    def take(self, candidate: C) -> None:
        """Count a candidate that its handler gets."""
        number = self.handler_of(candidate)
        if number is not None:
            self._taken[number] += 1

    def until_used_up(self, claimed: Sequence[C]) -> Sequence[C] | None:
        """Return the messages up to the last one of a handler whose limit they use up; None if there is no such.

        Behind this message, a claim may have left some for the handler.
        """
        handlers = [self.handler_of(each) for each in claimed]
        last = {handler: position for position, handler in enumerate(handlers, 1)}
        taken = Counter(handlers)
        full = [last[n] for n, each in enumerate(self._wanted) if 0 < each.limit <= taken[n]]
        return claimed[: min(full)] if full else None


def common_example(one: Selector, other: Selector) -> dict[str, object] | None:
    """Return headers of a message that both selectors match, None if no such message is found.

    The headers have values from the texts of the selectors, and beside them. If the selectors share only
    messages that are far from these, or that have certain properties, the search does not find them.
    """
    found = [token for text in (one.text, other.text) for token in tokens(text)]
    names = sorted({str(token.value) for token in found if token.kind == "name"})
    values: dict[object, None] = {None: None}
    for token in found:
        if token.kind == "literal":
            values |= dict.fromkeys(_beside(token.value))
    random = Random(0)  # noqa: S311 - not a secret
    for _ in range(MOST_EXAMPLES):
        headers = {name: random.choice(list(values)) for name in names}
        message = Message(id="", headers=headers)
        if one.matches(message) and other.matches(message):
            return {name: value for name, value in headers.items() if value is not None}
    return None


def _beside(value: object) -> list[object]:
    """Return a value of a selector, and values that a condition with it may match instead."""
    if isinstance(value, bool):
        return [value, not value]
    if isinstance(value, int | float):
        return [value, value - 1, value + 1]
    text = str(value)
    return [text, text.replace("%", "").replace("_", "x"), f"{text}x"]
