"""The datasets and their columns: the history, the dead letters, the live messages.

A column has the type that Spark shows and the model's field that it comes from. A test
compares the documentation's tables with these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mq.errors import PipelineError
from django_mq.models import History, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet


#: Large columns, which are read only on request.
HEAVY = {"headers", "body"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, Spark's type, the field's name or path for the ORM, and words for numbers."""

    name: str
    type: str
    field: str
    words: dict[int, str] | None = None

    @property
    def is_heavy(self) -> bool:
        """Whether its values may be large."""
        return self.name in HEAVY


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows of one table that can be read by ranges of ``id``."""

    name: str
    columns: tuple[Column, ...]

    def rows(self, alias: str) -> QuerySet[Any]:
        if self.name == "history":
            return History.objects.using(alias)
        messages = Message.objects.using(alias)
        return messages.filter(state=Message.Status.DEAD) if self.name == "dead" else messages

    def chosen(self, names: Sequence[str] | None, *, with_body: bool = False) -> tuple[Column, ...]:
        """Return the columns of these names, in the dataset's order; without names, all but the heavy ones.

        Raises PipelineError for an unknown name.
        """
        strange = set(names or ()) - {column.name for column in self.columns}
        if strange:
            raise PipelineError(
                f"The dataset {self.name!r} has no column {', '.join(sorted(strange))}; it has "
                f"{', '.join(column.name for column in self.columns)}."
            )
        wanted = set(names or (column.name for column in self.columns if with_body or not column.is_heavy))
        return tuple(column for column in self.columns if column.name in wanted)


def _columns(schema: str, **words: Any) -> tuple[Column, ...]:
    """Return the columns of a schema with Spark's types, each ``name type`` or ``name type field``."""
    choices = {name: {choice.value: choice.name.lower() for choice in kinds} for name, kinds in words.items()}
    parts = (column.split() for column in schema.split(","))
    return tuple(
        Column(name, kind, field[0] if field else name, choices.get(name)) for name, kind, *field in parts
    )


_HISTORY = _columns(
    """
    id bigint, queue string queue_name, message_id string, type string, correlation_id string, priority int,
    attempts int, published_at timestamp, claimed_at timestamp, outcome string, ready_at timestamp,
    finished_at timestamp, session_id bigint, redelivered boolean, headers string, body binary
    """,
    outcome=History.Outcome,
)
_LIVE = _columns(
    """
    id bigint, queue string queue__name, message_id string, type string, correlation_id string, priority int,
    attempts int, published_at timestamp, claimed_at timestamp, state string, level int, place bigint,
    redelivered boolean, group_key string, deliver_at timestamp, expires_at timestamp, dead_reason string,
    dead_at timestamp, content_type string, content_encoding string, headers string, body binary
    """,
    state=Message.Status,
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
