"""Reads the fields of a JSON object by name and type, and notices fields that were not read."""

from collections.abc import Mapping
from typing import TypeVar

from tests.scenarios.errors import MalformedScenarioError, UnknownWordError

T = TypeVar("T")
D = TypeVar("D")


class Fields:
    """One JSON object of a scenario. ``where`` says in words which, for the error messages.

    Call ``finish`` when everything that is known has been read: it raises UnknownWordError for
    the rest, so that no field is ever overlooked.
    """

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, Mapping):
            raise MalformedScenarioError(f"{where} should be an object, not {values!r}")
        self._values = values
        self._read: set[str] = set()
        self.where = where

    def need(self, name: str, kind: type[T]) -> T:
        """The field's value; raises MalformedScenarioError if it is missing or no ``kind``."""
        value = self.want(name, kind, None)
        if value is None:
            raise MalformedScenarioError(f"{self.where} has no {name!r}")
        return value

    def want(self, name: str, kind: type[T], default: D) -> T | D:
        """The field's value, or the default if it is missing or null. An int is a float, too."""
        self._read.add(name)
        value = self._values.get(name)
        if value is None:
            return default
        if kind is float and type(value) is int:
            return kind(value)  # type: ignore[call-arg]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise MalformedScenarioError(
                f"{self.where}: {name!r} should be {_NAMES.get(kind, kind.__name__)}, not {value!r}"
            )
        return value

    def choice(self, name: str, known: "Mapping[str, T]", default: D) -> T | D:
        """What stands for the field's text; raises UnknownWordError for any other text."""
        word = self.want(name, str, None)
        if word is None:
            return default
        if word not in known:
            raise UnknownWordError(name, word, known)
        return known[word]

    def texts(self, name: str) -> list[str]:
        """A list of texts; empty if the field is missing."""
        values = self.want(name, list, [])
        if not all(isinstance(each, str) for each in values):
            raise MalformedScenarioError(f"{self.where}: {name!r} should be a list of texts, not {values!r}")
        return values

    def has(self, name: str) -> bool:
        """Whether the field is there, be it null."""
        return name in self._values

    def finish(self) -> None:
        """Raise UnknownWordError for a field that was never read."""
        for name in self._values:
            if name not in self._read:
                raise UnknownWordError(f"field of {self.where}:", name, self._read)


_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
