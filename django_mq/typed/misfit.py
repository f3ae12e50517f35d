"""What is wrong with a body, and where in it."""

from __future__ import annotations

from functools import reduce

from django_mq.errors import shown


class Misfit(Exception):  # noqa: N818 - what it is
    """A part of a body does not fit. It names the part, and shows no value, which may be secret."""

    def __init__(self, words: str, *path: str | int) -> None:
        super().__init__(words)
        self.words = words
        self.path = path

    def below(self, place: str | int) -> Misfit:
        """Return the same error, seen from the object or the list that has the part."""
        return Misfit(self.words, place, *self.path)

    def __str__(self) -> str:
        return f"{reduce(_joined, self.path, '') or 'it'} {self.words}"


def _joined(path: str, place: str | int) -> str:
    if isinstance(place, str) and place.isidentifier():
        return f"{path}.{place}" if path else place
    return f"{path}[{shown(place)}]"
