"""The data source as a target: ``frame.write.format("django_mq").option("job", KEY)``.

The rows of a Spark task are a part of the job. No step is left when all tasks are done: each
part is committed with its BulkPart row.
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


#: The module with the functions of the tasks; not imported here, because it needs models.
TASKS = "django_mq.pipeline.publisher"


@dataclass
class Written(WriterCommitMessage):
    """How many messages a task has published."""

    rows: int


class Sink:
    """The job's key and the database, for both writers."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        check_columns((field.name, field.dataType.simpleString()) for field in schema.fields)
        executors.set_up()
        self.key = given.get("job", "")
        self.alias = executors.check_alias(given.get("using"))

    def publish(self, batches: Iterator[pa.RecordBatch], batch: int = 0, query_id: str = "") -> Written:
        arguments = (self.key, batch, query_id)
        return Written(executors.in_task(TASKS, "publish_for_sink", batches, self.alias, arguments))


class MessageWriter(Sink, DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self.publish(iterator)


class MessageStreamWriter(Sink, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise PipelineError("A stream's rows can be published by one of its tasks only.")
        batch = context.getLocalProperty("streaming.sql.batchId") or "0"
        return self.publish(iterator, int(batch), context.getLocalProperty("sql.streaming.queryId") or "")
