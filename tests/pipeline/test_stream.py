"""The history as a stream: rows of transactions that commit late are not lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from django_mq.errors import PipelineError
from django_mq.models import History
from django_mq.pipeline.session import explaining
from django_mq.pipeline.source import MessageSource
from django_mq.pipeline.stream import sealed
from django_mq.stores.registry import private_store
from tests.pipeline.conftest import finished

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Late:
    """A writer that has written a row and commits when it is told to."""

    def __init__(self, alias: str, number: int) -> None:
        self.written, self.go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write, args=(alias, number))
        self._thread.start()
        assert self.written.wait(60)

    def _write(self, alias: str, number: int) -> None:
        try:
            with transaction.atomic(using=alias):
                finished(number).save(using=alias)
                self.written.set()
                self.go.wait(60)
        finally:
            connections[alias].close()

    def commit(self) -> None:
        self.go.set()
        self._thread.join()


def test_a_range_is_not_sealed_while_somebody_may_still_write_into_it(past: Any, committed_database: str) -> None:
    if committed_database == "default":
        pytest.skip("SQLite has one writer")
    store = private_store(committed_database)
    try:
        first = past(3)[-1].pk
        assert sealed(store, 0) == first
        late = Late(committed_database, 4)
        finished(5).save(using=committed_database)

        assert sealed(store, first, patience_seconds=0) == first
        late.commit()
        assert sealed(store, first) == first + 2
    finally:
        store.close()


def test_the_end_is_sealed_where_nobody_writes(past: Any, committed_database: str) -> None:
    store = private_store(committed_database)
    try:
        assert sealed(store, 0) == store.browser.last_finished()
        rows = past(7)
        assert sealed(store, 0) == rows[-1].pk
        assert sealed(store, rows[-1].pk + 5) == rows[-1].pk + 5
    finally:
        store.close()


@pytest.mark.on("postgresql")
def test_a_stream_has_every_row_once_over_restarts(
    spark: SparkSession, past: Any, committed_database: str, tmp_path: Path
) -> None:
    def run() -> int:
        stream = spark.readStream.format("django_mq").option("using", committed_database).option("columns", "id")
        writer = stream.load().writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "out"))
        with explaining():
            query.awaitTermination()
        return spark.read.parquet(str(tmp_path / "out")).count()

    past(20)
    assert run() == 20
    past(15)
    assert run() == 35
    assert run() == 35
    rows = {row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert rows == set(History.objects.using(committed_database).values_list("id", flat=True))


@pytest.mark.django_db(databases=["default"], transaction=True)
def test_a_batch_may_be_bounded() -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    History.objects.bulk_create([finished(number) for number in range(10)])
    first = History.objects.earliest("id").pk
    reader = MessageSource({"max_rows": "4"}).streamReader(None)  # type: ignore[arg-type]
    start = {"id": first - 1}

    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert reader.latestOffset(start, limit) == {"id": first + 3}
    assert reader.latestOffset({"id": first + 8}, limit) == {"id": first + 9}
    assert reader.latestOffset(start, ReadAllAvailable()) == {"id": first + 9}
    assert MessageSource({"first_id": "7"}).streamReader(None).initialOffset() == {"id": 6}  # type: ignore[arg-type]
    assert reader.partitions({"id": 5}, {"id": 5}) == []


def test_live_messages_are_no_stream() -> None:
    with pytest.raises(PipelineError, match="Only the history can be read as a stream"):
        MessageSource({"dataset": "live"}).streamReader(None)  # type: ignore[arg-type]
