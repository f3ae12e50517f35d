"""The tables of the queues as DataFrames, on each database."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from django_mq.api import publish
from django_mq.errors import PipelineError
from django_mq.models import History, Message, Queue
from django_mq.pipeline import pages
from django_mq.pipeline.datasets import DATASETS
from django_mq.pipeline.pages import id_ranges
from django_mq.pipeline.session import explaining
from django_mq.pipeline.source import Ids, MessageSource, read
from tests.docs.pages import DOCS
from tests.pipeline.conftest import MORNING, finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.on("sqlite", "postgresql")


def test_a_row_is_the_same_in_spark(spark: SparkSession, past: Any, committed_database: str) -> None:
    past(3, body=b"\x00\xff", headers={"ü": [1, None]})

    frame = read(spark, using=committed_database, with_body=True)
    row = frame.orderBy("id").first().asDict()

    kept = History.objects.using(committed_database).earliest("id")
    assert row["message_id"] == str(kept.message_id)
    assert row["queue"] == "orders"
    assert row["outcome"] == "accepted"
    assert bytes(row["body"]) == b"\x00\xff"
    assert '"ü"' in row["headers"] or "\\u00fc" in row["headers"]
    times = frame.selectExpr("cast(published_at as string) p", "unix_micros(finished_at - interval 3 seconds) f")
    first = times.orderBy("f").first()
    assert first["p"].startswith((MORNING + timedelta(seconds=1)).strftime("%Y-%m-%d %H:%M:%S"))
    assert first["f"] == int((MORNING.timestamp() + 1) * 1_000_000)


def test_every_row_is_read_once_however_it_is_divided(
    spark: SparkSession, past: Any, committed_database: str
) -> None:
    past(1234)

    for partitions in (1, 7):
        frame = read(spark, using=committed_database, partitions=partitions, columns="id")
        assert frame.count() == 1234
        assert frame.distinct().count() == 1234


def test_an_empty_history_is_an_empty_frame(spark: SparkSession, committed_database: str) -> None:
    assert read(spark, using=committed_database).count() == 0


def test_a_filter_finds_what_the_database_finds(spark: SparkSession, past: Any, committed_database: str) -> None:
    past(20)
    past(5, queue_name="invoices", priority=9)

    frame = read(spark, using=committed_database)

    assert frame.where("queue = 'invoices' and priority > 4").count() == 5
    assert frame.where("queue in ('orders', 'nothing') and priority < 9").count() == 20
    assert (
        frame.where(f"finished_at > timestamp '{MORNING:%Y-%m-%d %H:%M:%S} UTC' + interval 13 second").count()
        == 10
    )
    assert frame.where("outcome = 'expired'").count() == 0
    assert read(spark, using=committed_database, pushdown=False).where("queue = 'invoices'").count() == 5
    assert read(spark, using=committed_database, queue="invoices").count() == 5
    since, before = (MORNING + timedelta(seconds=second) for second in (13, 16))
    between = read(spark, using=committed_database, finished_since=since, finished_before=before)
    found = [row["at"] for row in between.selectExpr("unix_seconds(finished_at) at").orderBy("at").collect()]
    assert found == [int(since.timestamp()) + second for second in range(3)]


def test_one_frame_answers_many_questions(spark: SparkSession, past: Any, committed_database: str) -> None:
    for priority in (1, 2, 3):
        past(priority * 10, priority=priority)
    frame = read(spark, using=committed_database)
    low, high = frame.where("priority = 1"), frame.where("priority = 3")

    assert (low.count(), frame.count(), high.count(), low.count()) == (10, 60, 30, 10)
    both = low.union(high).groupBy("priority").count().collect()
    assert sorted(map(tuple, both)) == [(1, 10), (3, 30)]
    joined = low.alias("a").join(high.alias("b"), f.col("a.message_id") == f.col("b.message_id"))
    assert joined.count() == 10
    assert frame.join(low.select("id"), "id", "left_anti").count() == 50
    frame.createOrReplaceTempView("messages")
    asked = "select (select count(*) from messages where priority = 2), (select count(*) from messages), "
    asked += "(select count(*) from messages where queue = 'nothing')"
    assert tuple(spark.sql(asked).first()) == (20, 60, 0)
    assert frame.count() == 60


def test_a_session_keeps_its_option_of_filters(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"


def test_live_and_dead_messages_are_read_without_taking_them(spark: SparkSession, committed_database: str) -> None:
    Queue.objects.using(committed_database).create(name="orders")
    publish("orders", {"n": 1}, using=committed_database, priority=9)
    publish("orders", {"n": 2}, using=committed_database)
    rows = Message.objects.using(committed_database)
    rows.filter(priority=4).update(state=Message.Status.DEAD, dead_reason="ValueError")

    live = {row["state"]: row for row in read(spark, "live", using=committed_database, with_body=True).collect()}
    dead = read(spark, "dead", using=committed_database).collect()

    assert set(live) == {"ready", "dead"}
    assert bytes(live["ready"]["body"]) == b'{"n":1}'
    assert [row["dead_reason"] for row in dead] == ["ValueError"]
    assert rows.count() == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dataset": "histroy"}, "There is no dataset 'histroy'; use one of history, dead, live"),
        ({"columns": "id,colour"}, "has no column colour"),
        ({"partitions": "many"}, "The option partitions is 'many'"),
        ({"with_body": "perhaps"}, "use true or false"),
        ({"quueue": "orders"}, "has no option quueue"),
        ({"finished_since": "monday"}, "The option finished_since is 'monday'; use a day or a time"),
        ({"dataset": "live", "finished_before": "2026-03-02"}, "of 'live' are not finished"),
        ({"pushdown": "true"}, "Use the options queue, finished_since and finished_before"),
    ],
)
def test_wrong_options_are_said_in_one_sentence(options: dict[str, str], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        MessageSource(options).schema()


def test_the_sentence_comes_through_spark(spark: SparkSession, committed_database: str) -> None:
    with pytest.raises(PipelineError, match=r"^There is no database 'elsewhere'; DATABASES has"), explaining():
        read(spark, using="elsewhere").count()


@pytest.mark.parametrize("columns", [None, ["id", "body"], ["id", "headers"]], ids=str)
def test_a_page_is_bounded_by_bytes(
    past: Any, committed_database: str, monkeypatch: pytest.MonkeyPatch, columns: list[str] | None
) -> None:
    monkeypatch.setattr(pages, "PAGE", 7)
    monkeypatch.setattr(pages, "PAGE_BYTES", 4000)
    sizes = [0, *[900] * 9, 9000, None, 100, 5000, *[0] * 20]
    texts = {size: None if size is None else "x" * size for size in sizes}
    rows = [
        finished(number, body=None if size is None else bytes(size), headers={"text": texts[size]})
        for number, size in enumerate(sizes)
    ]
    History.objects.using(committed_database).bulk_create(rows)
    history = DATASETS["history"]

    chosen = history.chosen(columns, with_body=True)
    batches = [*pages.read(history, chosen, committed_database, pages.bounds(history, committed_database))]

    numbers = [number for batch in batches for number in batch["id"].to_pylist()]
    assert numbers == sorted(History.objects.using(committed_database).values_list("id", flat=True))
    for batch in batches:
        heavy = [batch[name].to_pylist() for name in ("body", "headers") if name in batch.schema.names]
        size = sum(len(value) for column in heavy for value in column if value is not None)
        assert batch.num_rows <= 7
        assert size <= 4000 + 30 * batch.num_rows or batch.num_rows == 1


def test_the_history_s_columns_are_the_fields_of_its_model() -> None:
    fields = {field.attname for field in History._meta.concrete_fields}

    assert {column.field for column in DATASETS["history"].columns} == fields


@pytest.mark.parametrize(("first", "last", "parts"), [(1, 10, 3), (5, 5, 4), (1, 1000, 7), (3, 4, 1)])
def test_ranges_of_ids_cover_all_and_none_twice(first: int, last: int, parts: int) -> None:
    ranges = id_ranges(first, last, parts)

    assert [number for start, stop in ranges for number in range(start, stop + 1)] == [*range(first, last + 1)]
    assert len(ranges) <= parts


def test_no_ids_are_no_ranges() -> None:
    assert id_ranges(None, None, 4) == []
    assert id_ranges(7, 6, 4) == []


def test_a_reader_gives_nothing_for_the_partition_that_spark_makes_of_none() -> None:
    assert [*MessageSource({}).reader(None).read(None)] == []  # type: ignore[arg-type]
    assert Ids(1, 2).range == (1, 2)


@pytest.mark.parametrize("name", DATASETS)
def test_the_page_has_every_column(name: str) -> None:
    page = (DOCS / "reference" / "spark.md").read_text(encoding="utf-8")
    section = page.partition(f"### {name}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.MULTILINE)

    assert documented == [(column.name, column.type) for column in DATASETS[name].columns]
