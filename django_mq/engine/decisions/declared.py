"""Selectors declared for a queue: what stands in an index about a message, so that a claim need not ask it.

The index says of a message which one of the declared selectors matches it. It only says where a claim looks: the
claim asks the selector nevertheless. So a claim also looks at the messages that several match, or that were not
asked yet.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from django_mq.engine.selector import Selector, tokens
from django_mq.errors import MalformedSelector, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.message import Message

#: What a message meets that was not asked yet.
UNASKED: Final = 0
#: Each list has so many numbers of its own.
NUMBERS: Final = 1024
#: The first numbers of a list: several of its selectors match the message, or none does.
SEVERAL, NONE, FIRST = range(3)
#: Properties that change while a message is in a queue: they are not written again.
CHANGING: Final = frozenset({"JMSDeliveryTime", "JMSExpiration", "AMQExpiration"})


class Declared:
    """The declared selectors of a queue."""

    def __init__(self, selectors: list[Selector]) -> None:
        self._selectors = selectors
        texts = sorted(_plain(each) for each in selectors)
        #: The first number of this list. Another list has other numbers.
        self.mark = (int.from_bytes(blake2b("\n".join(texts).encode(), digest_size=6).digest()) + 1) * NUMBERS
        self._numbers = {text: self.mark + FIRST + place for place, text in enumerate(texts)}

    def meets(self, message: Message) -> int:
        """Return the number that the index has for a message."""
        found = [each for each in self._selectors if each.matches(message)]
        if len(found) == 1:
            return self._numbers[_plain(found[0])]
        return self.mark + (SEVERAL if found else NONE)

    def where(self, selector: Selector) -> list[int] | None:
        """Return the numbers of all messages that a selector may match, None if it is not declared."""
        number = self._numbers.get(_plain(selector))
        return None if number is None else [number, self.mark + SEVERAL, UNASKED]


@lru_cache(maxsize=1024)
def _plain(selector: Selector) -> str:
    """Return a text that is the same for selectors that differ in blanks only."""
    return repr([(token.kind, token.value) for token in tokens(selector.text)])


def _lines(text: str) -> Iterator[str]:
    return filter(None, map(str.strip, text.splitlines()))


def selectors_in(text: str) -> list[Selector]:
    """Return the selectors of a text, one in each line. Raises MalformedSelector."""
    return [Selector(line) for line in _lines(text)]


@lru_cache(maxsize=1024)
def declared_in(text: str) -> Declared | None:
    """Return the declared selectors, None if there are none, or if another version has written them."""
    try:
        found = selectors_in(text)
    except MalformedSelector:
        return None
    return Declared(found) if found else None


def problems_of(text: str) -> Iterator[str]:
    """Yield a sentence for what cannot be declared."""
    seen = set[str]()
    for line in _lines(text):
        try:
            plain = _plain(Selector(line))
        except MalformedSelector as error:
            yield f"selectors has {shown(line)}: {str(error).rstrip('.')}"
            continue
        if plain in seen:
            yield f"selectors has {shown(line)} twice"
        seen.add(plain)
        if changing := sorted(CHANGING & {str(each.value) for each in tokens(line) if each.kind == "name"}):
            yield f"selectors has {shown(line)}; {changing[0]} changes in the queue"
