"""The data source ``django_mq``: tables of the queues as DataFrames.

Every phase of a read runs in another Python process: the object that plans is not
the one that reads. So objects hold options only, and a partition has all
data for its reader. The database's settings stay in Django: only an
alias is sent.

The source takes no filters from Spark: PySpark 4.3.0 keeps those of one query for every other query of
the same DataFrame. What the database shall filter by is an option, which is part of the DataFrame.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from django_mq.errors import PipelineError
from django_mq.pipeline import executors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from django_mq.pipeline.datasets import Column, Dataset
    from django_mq.pipeline.sink import MessageStreamWriter, MessageWriter
    from django_mq.pipeline.stream import HistoryStream


class ReadOptions:
    """The options of ``.option()``, checked. Spark ignores the case of their names."""

    NAMES = frozenset(
        "dataset using columns with_body partitions first_id last_id queue finished_since finished_before"  # noqa: SIM905
        " max_rows pushdown path".split()
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
        if self._flag("pushdown", default=False):
            raise PipelineError(
                "The option pushdown is 'true', but PySpark 4.3.0 would keep the filters of one query for the next"
                " one. Use the options queue, finished_since and finished_before."
            )
        self.number("partitions")
        self.finished_since, self.finished_before = self._time("finished_since"), self._time("finished_before")
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

    def condition(self) -> Q:
        """Return the condition of the options for the rows; Django has to be set up."""
        fields = {column.name: column.field for column in self.dataset().columns}
        wanted = {
            fields["queue"]: self._given.get("queue"),
            "finished_at__gte": self.finished_since,
            "finished_at__lt": self.finished_before,
        }
        return Q(**{lookup: value for lookup, value in wanted.items() if value is not None})

    def _time(self, name: str) -> datetime | None:
        text = self._given.get(name)
        if text is None:
            return None
        if self.dataset_name != "history":
            raise PipelineError(
                f"The option {name} is for the history: messages of {self.dataset_name!r} are not finished."
            )
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise PipelineError(
                f"The option {name} is {text!r}; use a day or a time, as 2026-03-02 or 2026-03-02 08:00:00+00:00."
            ) from None
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)

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
        return MessageReader(options)

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
    """A range of ids of one partition."""

    first: int
    last: int

    @property
    def range(self) -> tuple[int, int]:
        return self.first, self.last


class MessageReader(DataSourceReader):
    """Reads ranges of ids."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        from django_mq.pipeline.pages import bounds, enough_parts, id_ranges

        dataset = self.options.dataset()
        first, last = bounds(dataset, self.options.alias)
        if first is not None and last is not None:
            first = max(first, self.options.number("first_id", first) or first)
            last = min(last, self.options.number("last_id", last) or last)
        wanted = self.options.number("partitions") or enough_parts(first, last)
        ranges = id_ranges(first, last, wanted)
        return [Ids(start, stop) for start, stop in ranges]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        dataset, columns = self.options.dataset(), self.options.chosen()
        from django.db import connections

        from django_mq.pipeline.pages import read

        if not isinstance(partition, Ids):
            return  # without partitions, Spark makes an empty one
        try:
            yield from read(dataset, columns, self.options.alias, partition.range, self.options.condition())
        finally:
            connections[self.options.alias].close()


def read(spark: Any, dataset: str = "history", **options: Any) -> Any:
    """Return a dataset as a DataFrame; the options are those of the format."""
    reader = spark.read.format("django_mq").option("dataset", dataset)
    for name, value in options.items():
        if value is not None:
            reader = reader.option(name, str(value).lower() if isinstance(value, bool) else str(value))
    return reader.load()
