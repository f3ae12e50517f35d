"""Rows of a DataFrame into queues, each once."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from django.core.management import CommandError, call_command

from django_mq.delivery.codecs import marked_with_key
from django_mq.errors import PipelineError, UnknownQueue, WrongColumns
from django_mq.models import BulkJob, BulkPart, History, Message, Queue
from django_mq.pipeline import publisher
from django_mq.pipeline.archive import job as archive_job
from django_mq.pipeline.outgoing import check_columns, outgoing_messages
from django_mq.pipeline.publisher import publish_frame
from django_mq.pipeline.replay import ORIGIN, replay
from django_mq.pipeline.session import explaining
from tests.pipeline.conftest import MORNING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def orders(committed_database: str) -> str:
    """A queue."""
    Queue.objects.using(committed_database).create(name="orders")
    return committed_database


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr(
        "'orders' queue", "to_json(struct(id n)) body", "cast(id % 10 as int) priority"
    )


def live(alias: str) -> list[int]:
    bodies = Message.objects.using(alias).values_list("body", flat=True)
    return sorted(json.loads(bytes(body))["n"] for body in bodies)


@pytest.mark.on("postgresql")
def test_a_frame_is_published_once_however_it_is_divided(spark: SparkSession, orders: str) -> None:
    frame = numbers(spark, 300)

    first = publish_frame(frame, "load 1", orders, part_rows=100)
    again = publish_frame(frame.repartition(3).orderBy("body"), "load 1", orders, part_rows=7)

    assert (first.now, first.rows) == (300, 300)
    assert (again.now, again.rows) == (0, 300)
    assert live(orders) == [*range(300)]
    message = Message.objects.using(orders).get(body=b'{"n":7}')
    assert (message.priority, message.content_type) == (7, "application/json")
    assert BulkPart.objects.using(orders).count() == 3


@pytest.mark.django_db(databases=["default"], transaction=True)
class TestOnOneDatabase:
    """What does not depend on the kind of database is shown on SQLite."""

    @pytest.fixture
    def committed_database(self, settings: Any) -> str:
        return "default"

    def test_a_run_that_died_is_finished_by_the_next(self, spark: SparkSession, orders: str) -> None:
        frame = numbers(spark, 200)
        publish_frame(frame, "whole", orders, part_rows=50)
        lost = BulkPart.objects.latest("part")
        # As if that part had never committed: its line and its messages are one transaction.
        kept = {row["body"] for row in self._bodies_of(frame, lost.part)}
        Message.objects.filter(body__in=[body.encode() for body in kept]).delete()
        lost.delete()

        assert publish_frame(frame, "whole", orders).now == len(kept)
        assert live(orders) == [*range(200)]

    @staticmethod
    def _bodies_of(frame: DataFrame, part: int) -> Any:
        parts = BulkJob.objects.get().parts
        divided = frame.repartition(parts, *frame.columns)
        return divided.selectExpr("*", "spark_partition_id() p").where(f"p = {part}").collect()

    def test_other_rows_under_the_same_key_are_refused(self, spark: SparkSession, orders: str) -> None:
        publish_frame(numbers(spark, 5), "five", orders)

        with pytest.raises(PipelineError, match="was published before with 5 other rows"):
            publish_frame(numbers(spark, 6), "five", orders)

        assert live(orders) == [*range(5)]

    def test_the_format_writes_batches_once(self, spark: SparkSession, orders: str) -> None:
        writer = numbers(spark, 50).coalesce(2).write.format("django_mq").mode("append").option("job", "batch")

        writer.save()
        writer.save()

        assert live(orders) == [*range(50)]

    def test_the_format_writes_streams_once(self, spark: SparkSession, orders: str, tmp_path: Path) -> None:
        def run(checkpoint: str) -> None:
            stream = spark.readStream.schema("queue string, body string, priority int").parquet(
                str(tmp_path / "in")
            )
            writer = stream.writeStream.format("django_mq").option("job", "stream").trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).start()
            with explaining():
                query.awaitTermination()

        frame = numbers(spark, 30).coalesce(1)
        frame.write.parquet(str(tmp_path / "in"))
        run("checkpoint")
        frame.selectExpr("queue", "replace(body, ':', ':1000') body", "priority").write.mode("append").parquet(
            str(tmp_path / "in")
        )
        # As if the process had died between our commit and Spark's: the batch runs again.
        for commit in (tmp_path / "checkpoint" / "commits").glob("*0*"):
            commit.unlink()
        run("checkpoint")

        assert len(live(orders)) == len(set(live(orders))) == 60
        with pytest.raises(PipelineError, match="needs a new key"):
            run("another checkpoint")
        assert len(live(orders)) == 60

    def test_overwriting_is_refused(self, spark: SparkSession, orders: str) -> None:
        with pytest.raises(PipelineError, match="never overwritten"), explaining():
            numbers(spark, 1).write.format("django_mq").mode("overwrite").option("job", "x").save()

    def test_a_row_without_a_queue_stops_the_load(self, spark: SparkSession, orders: str) -> None:
        frame = numbers(spark, 5).selectExpr("nullif(queue, 'orders') queue", "body")

        with pytest.raises(WrongColumns, match="A row has no queue; nothing was published"):
            publish_frame(frame, "null", orders)

        assert Message.objects.count() == 0

    def test_what_is_wrong_with_a_row_comes_through_spark(self, spark: SparkSession, orders: str) -> None:
        with pytest.raises(PipelineError, match="body is no JSON: 'hello'"):
            publish_frame(spark.sql("select 'orders' queue, 'hello' body"), "bad", orders)
        with pytest.raises(PipelineError, match="nowhere"):
            publish_frame(spark.sql("select 'nowhere' queue, '1' body"), "unknown", orders)

        assert Message.objects.count() == 0
        assert BulkPart.objects.count() == 0

    def test_a_day_is_replayed_at_its_pace(
        self, spark: SparkSession, past: Any, orders: str, tmp_path: Path
    ) -> None:
        headers = {"number": 1, "part": 0.1, "large": 2**64, "text": "1", "on": True, "none": None, "deep": [{}]}
        past(10, body=b'{"a":1}', headers={**headers, "Traceparent": "of that day"})
        archive_job.archive(lambda: spark, orders, str(tmp_path), older_than=timedelta(0))

        done = replay(spark, orders, MORNING.date(), "orders", speed=0.5)
        again = replay(spark, orders, MORNING.date(), "orders", speed=0.5)

        assert (done.now, again.now) == (10, 0)
        due = sorted(Message.objects.values_list("deliver_at", flat=True))
        assert {later - sooner for sooner, later in pairwise(due)} == {timedelta(seconds=2)}
        message = Message.objects.order_by("deliver_at").first()
        assert message is not None
        assert message.headers == {**headers, ORIGIN: "00000000-0000-0000-0000-000000000001"}
        assert bytes(message.body) == b'{"a":1}'

    def test_a_day_with_encrypted_bodies_is_not_replayed(
        self, spark: SparkSession, past: Any, orders: str, tmp_path: Path
    ) -> None:
        past(3, body=b'{"a":1}')
        History.objects.filter(pk=History.objects.first().pk).update(body=marked_with_key("2026", b"x"))
        archive_job.archive(lambda: spark, orders, str(tmp_path), older_than=timedelta(0))

        with pytest.raises(PipelineError, match="are encrypted, for example with the key '2026'"):
            replay(spark, orders, MORNING.date(), "orders")
        assert not Message.objects.exists()

    def test_a_replay_needs_a_queue_that_is_there(self, spark: SparkSession, orders: str) -> None:
        with pytest.raises(UnknownQueue, match="'test'"):
            replay(spark, orders, MORNING.date(), "test")

    def test_the_command_publishes_a_file(self, spark: SparkSession, orders: str, tmp_path: Path) -> None:
        (tmp_path / "in.csv").write_text('body,priority\n"{""n"": 1}",9\n"{""n"": 2}",\n')

        def run(*arguments: str) -> str:
            out = io.StringIO()
            call_command("mq_spark", "publish", str(tmp_path / "in.csv"), *arguments, stdout=out)
            return out.getvalue()

        options = ["--format", "csv", "--queue", "orders", "--job", "file"]
        assert run(*options) == "2 messages published.\n"
        assert run(*options) == "0 messages published, 2 were published before.\n"
        assert live(orders) == [1, 2]
        with pytest.raises(CommandError, match="no column queue"):
            run("--format", "csv", "--job", "other")


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ([("queue", "string")], "has no column body"),
        ([], "has no column queue and none body"),
        ([("queue", "string"), ("body", "string"), ("colour", "int")], "A message has no colour"),
        ([("queue", "int"), ("body", "string")], "The column queue is int; it has to be string"),
    ],
)
def test_wrong_columns_are_said_in_one_sentence(types: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(WrongColumns, match=said):
        check_columns(types)


def test_a_row_becomes_a_message() -> None:
    due = datetime(2031, 1, 1, tzinfo=UTC)
    row = {
        "queue": ["q", "q", "q"],
        "body": [b"\x00", b"1", b"t"],
        "content_type": [None, "application/json", "text/plain"],
        "headers": ['{"a": 1}', None, None],
        "deliver_at": [due, None, None],
    }

    made = [*outgoing_messages(pa.RecordBatch.from_pydict(row))]

    assert [each.content_type for each in made] == [
        "application/octet-stream",
        "application/json",
        "text/plain",
    ]
    assert made[0].headers == {"a": 1}
    assert made[0].deliver_at == due


@pytest.mark.django_db(databases=["default"])
def test_a_load_needs_a_key() -> None:
    with pytest.raises(PipelineError, match="needs a key"):
        publisher.job("", "default")
