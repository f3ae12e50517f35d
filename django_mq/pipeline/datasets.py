"""What can be read: the history, the dead letters, the live messages, column by column.

A column has the type that Spark shows and the model's field that it comes from. The
documentation's tables are compared with these by a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mq.errors import PipelineError
from django_mq.models import History, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, Spark's type, the field (the same name, unless said), words for numbers."""

    name: str
    type: str
    field: str = ""
    words: dict[int, str] | None = None

    @property
    def source(self) -> str:
        """The field's name, or its path, for the ORM."""
        return self.field or self.name


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows of one table that can be read by ranges of ``id``."""

    name: str
    columns: tuple[Column, ...]
    #: Columns read only when they are asked for: they are large.
    heavy: tuple[str, ...] = ("headers", "body")

    def rows(self, alias: str) -> QuerySet[Any]:
        """All rows of the dataset."""
        if self.name == "history":
            return History.objects.using(alias)
        messages = Message.objects.using(alias)
        return messages.filter(state=Message.Status.DEAD) if self.name == "dead" else messages

    def chosen(self, names: Sequence[str] | None, *, with_body: bool = False) -> tuple[Column, ...]:
        """The columns of these names, in the dataset's order; without names, all but the heavy ones.

        Raises PipelineError for a name that there is not.
        """
        strange = set(names or ()) - {column.name for column in self.columns}
        if strange:
            raise PipelineError(
                f"The dataset {self.name!r} has no column {', '.join(sorted(strange))}; it has "
                f"{', '.join(column.name for column in self.columns)}."
            )
        left_out = set() if with_body else set(self.heavy)
        wanted = set(names) if names else {column.name for column in self.columns} - left_out
        return tuple(column for column in self.columns if column.name in wanted)


def _words(choices: Any) -> dict[int, str]:
    return {choice.value: choice.name.lower() for choice in choices}


#: Of a message and of its history alike.
_MESSAGE = (
    Column("message_id", "string"),
    Column("type", "string"),
    Column("correlation_id", "string"),
    Column("priority", "int"),
    Column("attempts", "int"),
    Column("published_at", "timestamp"),
    Column("claimed_at", "timestamp"),
)
_CONTENT = (Column("headers", "string"), Column("body", "binary"))

_HISTORY = (
    Column("id", "bigint"),
    Column("queue", "string", "queue_name"),
    *_MESSAGE,
    Column("outcome", "string", words=_words(History.Outcome)),
    Column("ready_at", "timestamp"),
    Column("finished_at", "timestamp"),
    Column("session_id", "bigint"),
    *_CONTENT,
)
_LIVE = (
    Column("id", "bigint"),
    Column("queue", "string", "queue__name"),
    *_MESSAGE,
    Column("state", "string", words=_words(Message.Status)),
    Column("level", "int"),
    Column("place", "bigint"),
    Column("redelivered", "boolean"),
    Column("group_key", "string"),
    Column("deliver_at", "timestamp"),
    Column("expires_at", "timestamp"),
    Column("dead_reason", "string"),
    Column("dead_at", "timestamp"),
    Column("content_type", "string"),
    Column("content_encoding", "string"),
    *_CONTENT,
)

DATASETS = {
    dataset.name: dataset
    for dataset in (Dataset("history", _HISTORY), Dataset("dead", _LIVE), Dataset("live", _LIVE))
}


def dataset(name: str) -> Dataset:
    """Return the dataset. Raises PipelineError."""
    if name not in DATASETS:
        raise PipelineError(f"There is no dataset {name!r}; use one of {', '.join(DATASETS)}.")
    return DATASETS[name]
