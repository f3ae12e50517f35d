"""A condition on messages, read once and asked of many."""

from typing import Final

from django_mq.engine.message import Message
from django_mq.engine.selectors.parser import parse
from django_mq.engine.selectors.values import Expression, literal

_EVERY_MESSAGE: Final = literal(value=True)


class Selector:
    """Which messages are wanted, written as the condition of a WHERE in SQL.

    A text of nothing but space wants every message. Raises MalformedSelector if the text
    cannot be read, is longer than 16,384 characters or is nested more than 50 deep.
    """

    __slots__ = ("_condition", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._condition: Expression = parse(text) if text.strip() else _EVERY_MESSAGE

    def matches(self, message: Message) -> bool:
        """Whether the condition is true, and not merely unknown. Never raises."""
        return self._condition(message) is True
