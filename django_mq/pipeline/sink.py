"""The other direction of the data source: ``frame.write.format("django_mq").option("job", KEY)``.

A task's rows are a part of the load. Nothing is left to do when all tasks are done: each
part has committed with its line in the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from django_mq.errors import PipelineError
from django_mq.pipeline import executors
from django_mq.pipeline.outgoing import check_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType


#: Where the tasks' work is; not imported here, for it needs models.
TASKS = "django_mq.pipeline.publishing"


@dataclass
class Written(WriterCommitMessage):
    """How many messages a task has published."""

    rows: int


class Sink:
    """What both writers know: the job's key and the database."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        check_columns((field.name, field.dataType.simpleString()) for field in schema.fields)
        executors.set_up()
        self.key = given.get("job", "")
        self.alias = executors.check_alias(given.get("using"))

    def publish(self, batches: Iterator[pa.RecordBatch], batch: int = 0, query_id: str = "") -> Written:
        """Publish this task's rows."""
        arguments = (self.key, batch, query_id)
        return Written(executors.in_task(TASKS, "publish_for_sink", batches, self.alias, arguments))


class MessageWriter(Sink, DataSourceArrowWriter):
    """Publishes the rows of a batch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self.publish(iterator)


class MessageStreamWriter(Sink, DataSourceStreamArrowWriter):
    """Publishes the rows of each batch of a stream."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise PipelineError("A stream's rows can be published by one of its tasks only.")
        batch = context.getLocalProperty("streaming.sql.batchId") or "0"
        return self.publish(iterator, int(batch), context.getLocalProperty("sql.streaming.queryId") or "")
