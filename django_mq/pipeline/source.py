"""The data source ``django_mq``: tables of the queues as DataFrames.

Every phase of a read runs in another Python process: the object that plans is not
the one that reads. So objects hold options only, and a partition has all
data for its reader. The database's settings stay in Django: only an
alias is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from django_mq.errors import PipelineError
from django_mq.pipeline import executors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from django_mq.pipeline.datasets import Column, Dataset
    from django_mq.pipeline.sink import MessageStreamWriter, MessageWriter
    from django_mq.pipeline.stream import HistoryStream


#: Spark's filters, each with the lookup of the ORM.
LOOKUPS: dict[type[Filter], str] = {
    EqualTo: "exact",
    In: "in",
    GreaterThan: "gt",
    GreaterThanOrEqual: "gte",
    LessThan: "lt",
    LessThanOrEqual: "lte",
}
ORDERED = frozenset({"bigint", "int", "timestamp"})


class ReadOptions:
    """The options of ``.option()``, checked. Spark ignores the case of their names."""

    NAMES = frozenset(
        "dataset using columns with_body partitions first_id last_id max_rows pushdown path".split()  # noqa: SIM905
    )

    def __init__(self, given: Mapping[str, str]) -> None:
        strange = {name.lower() for name in given} - self.NAMES
        if strange:
            raise PipelineError(
                f"The format django_mq has no option {', '.join(sorted(strange))}; use "
                f"{', '.join(sorted(self.NAMES - {'path'}))}."
            )
        self._given = given
        self.dataset_name = given.get("dataset", "history")
        self.with_body = self._flag("with_body", default=False)
        self.pushdown = self._flag("pushdown", default=True)
        self.number("partitions")
        names = given.get("columns")
        self.columns = [name.strip() for name in names.split(",")] if names else None

    def _flag(self, name: str, *, default: bool) -> bool:
        text = self._given.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise PipelineError(f"The option {name} is {text!r}; use true or false.")
        return text == "true"

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number, 1 or more. Raises PipelineError."""
        text = self._given.get(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < 1:
            raise PipelineError(f"The option {name} is {text!r}; use a whole number, 1 or more.")
        return int(text)

    @property
    def alias(self) -> str:
        """The database alias; Django has to be set up."""
        return executors.check_alias(self._given.get("using"))

    def dataset(self) -> Dataset:
        """Return the dataset. Raises PipelineError."""
        executors.set_up()
        from django_mq.pipeline.datasets import dataset

        return dataset(self.dataset_name)

    def chosen(self) -> tuple[Column, ...]:
        """Return the columns to read. Raises PipelineError."""
        return self.dataset().chosen(self.columns, with_body=self.with_body)


class MessageSource(DataSource):
    """``spark.read.format("django_mq").option("dataset", "history").load()``."""

    @classmethod
    def name(cls) -> str:
        return "django_mq"

    def schema(self) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in ReadOptions(self.options).chosen())

    def reader(self, schema: StructType) -> MessageReader:  # noqa: ARG002 - the options say which columns
        options = ReadOptions(self.options)
        return FilteringReader(options) if options.pushdown else MessageReader(options)

    def streamReader(self, schema: StructType) -> HistoryStream:  # noqa: N802, ARG002 - Spark's names
        from django_mq.pipeline.stream import HistoryStream

        return HistoryStream(ReadOptions(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> MessageWriter:
        from django_mq.pipeline.sink import MessageWriter

        if overwrite:
            raise PipelineError("Messages are published, never overwritten: use mode('append').")
        return MessageWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MessageStreamWriter:  # noqa: N802, ARG002 - Spark's
        from django_mq.pipeline.sink import MessageStreamWriter

        # Spark sometimes sets overwrite for a stream in append mode, so it is ignored.
        return MessageStreamWriter(self.options, schema)


@dataclass
class Ids(InputPartition):
    """A range of ids of one partition, and the condition for its rows."""

    first: int
    last: int
    condition: Q

    @property
    def range(self) -> tuple[int, int]:
        return self.first, self.last


class MessageReader(DataSourceReader):
    """Reads ranges of ids."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.condition = Q()

    def partitions(self) -> Sequence[InputPartition]:
        from django_mq.pipeline.pages import bounds, enough_parts, id_ranges

        dataset = self.options.dataset()
        first, last = bounds(dataset, self.options.alias)
        if first is not None and last is not None:
            first = max(first, self.options.number("first_id", first) or first)
            last = min(last, self.options.number("last_id", last) or last)
        wanted = self.options.number("partitions") or enough_parts(first, last)
        ranges = id_ranges(first, last, wanted)
        return [Ids(start, stop, self.condition) for start, stop in ranges]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        dataset, columns = self.options.dataset(), self.options.chosen()
        from django.db import connections

        from django_mq.pipeline.pages import read

        if not isinstance(partition, Ids):
            return  # without partitions, Spark makes an empty one
        try:
            yield from read(dataset, columns, self.options.alias, partition.range, partition.condition)
        finally:
            connections[self.options.alias].close()


class FilteringReader(MessageReader):
    """A reader with conditions that the database checks. Spark refuses it where that is switched off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self.condition, left = translate(filters, self.options.chosen())
        return left


def translate(filters: Iterable[Filter], columns: Iterable[Column]) -> tuple[Q, list[Filter]]:
    """Return the condition for the database, and the filters that Spark has to check itself.

    The database checks only conditions that mean the same there. Texts are compared for equality alone,
    because databases order them differently.
    """
    known = {column.name: column for column in columns}
    condition, left = Q(), []
    for given in filters:
        lookup = _lookup(given, known)
        if lookup is None:
            left.append(given)
        else:
            condition &= Q(**lookup)
    return condition, left


def _lookup(given: Any, known: dict[str, Column]) -> dict[str, Any] | None:
    kind = LOOKUPS.get(type(given))
    if kind is None or len(given.attribute) != 1 or given.attribute[0] not in known:
        return None
    column = known[given.attribute[0]]
    equal = kind in ("exact", "in")
    if column.type not in ORDERED and not (equal and column.name == "queue"):
        return None
    value = [_value(each) for each in given.value] if kind == "in" else _value(given.value)
    return {f"{column.field}__{kind}": value}


def _value(value: Any) -> Any:
    """Return a filter's value. Times without a zone are in the session's, which is UTC."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


def read(spark: Any, dataset: str = "history", **options: Any) -> Any:
    """Return a dataset as a DataFrame; the options are those of the format."""
    reader = spark.read.format("django_mq").option("dataset", dataset)
    for name, value in options.items():
        if value is not None:
            reader = reader.option(name, str(value).lower() if isinstance(value, bool) else str(value))
    return reader.load()
