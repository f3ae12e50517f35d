"""What can be wrong with a file of scenarios, or with one of them."""

from collections.abc import Collection


class ScenarioError(Exception):
    """The scenarios cannot be run."""


class MalformedScenarioError(ScenarioError):
    """Something is missing, or of the wrong type."""


class UnknownWordError(ScenarioError):
    """A word that the vocabulary does not have, or that the adapter does not know."""

    def __init__(self, what: str, word: object, known: Collection[str]) -> None:
        super().__init__(f"unknown {what} {word!r}; known: {', '.join(sorted(known))}")


class UnfitError(ScenarioError):
    """The scenario asks for something that durable queues do not have."""
