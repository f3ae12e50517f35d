"""What the function of a handler is called with, where that is not the message alone."""

from __future__ import annotations

from typing import Any, Protocol


class Arguments(Protocol):
    """Makes the arguments of one function."""

    #: How many arguments it makes, all of them positional.
    number: int

    def __call__(self, message: Any, /) -> tuple[Any, ...]:
        """Return the arguments for a ``ReceivedMessage``. Raises CorruptMessage if its body does not fit."""

    def read(self, body: Any, /) -> Any:
        """Return what the function gets for a decoded body. Raises CorruptMessage if the body does not fit."""

    def check(self) -> None:
        """Raise TypeError, with the end of a sentence, if the arguments can never be made."""
