"""Out of the history and into the archive: every row once, and none deleted that is not there."""

from __future__ import annotations

import io
import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_mq.errors import ArchiveBusy, ArchiveDamaged, PipelineError
from django_mq.models import ArchiveBatch, History
from django_mq.pipeline.archive import job, keeping, manifest, purging, verifying, writing
from django_mq.pipeline.archive.reading import archived, days
from django_mq.pipeline.archive.restoring import restore
from tests.pipeline.conftest import MORNING, finished

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

DAY = MORNING.date()


@pytest.fixture
def archive(spark: SparkSession, committed_database: str, tmp_path: Path) -> Callable[..., job.Archived]:
    """Archive everything into the test's own root."""

    def run(**options: Any) -> job.Archived:
        options = {"older_than": timedelta(0), **options}
        return job.archive(lambda: spark, committed_database, str(tmp_path / "archive"), **options)

    return run


def ids(spark: SparkSession, alias: str) -> list[int]:
    return sorted(row["id"] for row in archived(spark, alias).select("id").collect())


def kept(alias: str) -> list[int]:
    return sorted(History.objects.using(alias).values_list("id", flat=True))


def test_what_is_old_enough_is_moved_and_the_rest_stays(
    spark: SparkSession, archive: Any, past: Any, committed_database: str, tmp_path: Path
) -> None:
    past(30, body=b"\x01", queue_name="a/b = 100 %")
    History.objects.using(committed_database).bulk_create([finished(99, published_at=timezone.now())])
    before = kept(committed_database)

    done = archive(older_than=timedelta(hours=1))

    assert (done.rows, done.deleted) == (30, 30)
    assert kept(committed_database) == before[30:]
    assert ids(spark, committed_database) == before[:30]
    rows = archived(spark, committed_database)
    assert {row["queue"] for row in rows.collect()} == {"a/b = 100 %"}
    assert bytes(rows.first()["body"]) == b"\x01"
    batch = ArchiveBatch.objects.using(committed_database).get()
    assert batch.state == ArchiveBatch.State.PURGED
    assert batch.active is None
    assert [*batch.days] == [DAY.isoformat()]
    told = json.loads((tmp_path / "archive" / "_manifest" / f"{batch.pk}.json").read_text())
    assert told["rows"] == 30
    assert days(committed_database) == {DAY.isoformat(): 30}


def test_an_empty_history_needs_no_spark(committed_database: str, tmp_path: Path) -> None:
    def session() -> Any:
        raise AssertionError("Spark was started for nothing")

    assert job.archive(session, committed_database, str(tmp_path), older_than=timedelta(0)) == job.NOTHING


def test_s3_is_spelt_as_each_knows_it() -> None:
    from django_mq.pipeline.archive import files

    assert files.spelt_for_arrow("s3a://bucket/x") == "s3://bucket/x"
    assert files.spelt_for_arrow("gs://bucket/x") == "gs://bucket/x"
    assert files.absolute("s3a://bucket/x/") == "s3a://bucket/x"


@pytest.mark.django_db(databases=["default"], transaction=True)
class TestOnOneDatabase:
    """What does not depend on the kind of database is shown on SQLite."""

    @pytest.fixture
    def committed_database(self, settings: Any) -> str:
        return "default"

    def test_a_batch_whose_rows_are_gone_meanwhile_is_closed(
        self, spark: SparkSession, past: Any, committed_database: str, tmp_path: Path, archive: Any
    ) -> None:
        past(3)
        manifest.plan(committed_database, str(tmp_path), timezone.now())
        History.objects.all().delete()

        assert archive().rows == 0
        assert ArchiveBatch.objects.get().state == ArchiveBatch.State.PURGED
        assert manifest.readable(committed_database) == []

    def test_an_attempt_that_died_leaves_nothing_that_counts(
        self, spark: SparkSession, past: Any, archive: Any, committed_database: str, tmp_path: Path
    ) -> None:
        past(20)
        batch = manifest.plan(committed_database, str(tmp_path / "archive"), timezone.now())
        assert batch is not None
        dead = f"{batch.root}/batch={batch.pk}-{uuid4()}"
        writing.write_days(writing.source(spark, batch, committed_database), dead)

        done = archive()

        assert (done.batch, done.rows, done.deleted) == (batch.pk, 20, 20)
        assert len(ids(spark, committed_database)) == 20
        assert keeping.vacuum(committed_database) == []
        assert keeping.vacuum(committed_database, grace_hours=0) == [dead]
        assert len(ids(spark, committed_database)) == 20

    def test_a_purge_that_died_is_finished_by_the_next_run(
        self, spark: SparkSession, past: Any, archive: Any, committed_database: str
    ) -> None:
        rows = past(20)
        archive(keep=True)
        History.objects.filter(pk__lte=rows[4].pk).delete()

        done = archive()

        assert (done.rows, done.deleted) == (20, 15)
        assert History.objects.count() == 0
        assert len(ids(spark, committed_database)) == 20
        assert archive() == job.NOTHING

    def test_what_commits_late_is_in_the_next_batch(
        self, spark: SparkSession, past: Any, archive: Any, committed_database: str
    ) -> None:
        rows = past(20)
        late = rows[7]
        late.delete()
        archive(keep=True)
        late.save(force_insert=True)

        archive()
        archive()

        assert History.objects.count() == 0
        assert len(ids(spark, committed_database)) == 20

    def test_two_archives_at_once_are_refused(
        self, past: Any, archive: Any, committed_database: str, tmp_path: Path
    ) -> None:
        past(2)
        batch = manifest.plan(committed_database, str(tmp_path), timezone.now())
        assert batch is not None

        with manifest.held(batch, committed_database):
            with pytest.raises(ArchiveBusy, match=r"is being archived by .*; wait until it is done"):
                archive()
            with pytest.raises(ArchiveBusy):
                manifest.plan(committed_database, str(tmp_path), timezone.now())

        assert History.objects.count() == 2

    def test_an_attempt_that_was_overtaken_does_not_count(self, past: Any, tmp_path: Path) -> None:
        past(2)
        batch = manifest.plan("default", str(tmp_path), timezone.now())
        assert batch is not None
        with manifest.held(batch, "default", seconds=30) as slow:
            ArchiveBatch.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
            with manifest.held(batch, "default"), pytest.raises(ArchiveBusy, match="has taken this batch over"):
                manifest.mark_written(batch, "default", slow, "nowhere", {})

    def test_a_root_that_cannot_be_written_is_refused_before_anything_is_planned(
        self, past: Any, spark: SparkSession, tmp_path: Path
    ) -> None:
        past(2)
        (tmp_path / "file").write_text("")

        with pytest.raises(PipelineError, match="cannot be written"):
            job.archive(lambda: spark, "default", str(tmp_path / "file" / "root"), older_than=timedelta(0))

        assert ArchiveBatch.objects.count() == 0

    @pytest.mark.parametrize("harm", ["gone", "damaged", "shorter"])
    def test_nothing_is_purged_that_is_not_in_the_archive(
        self, spark: SparkSession, past: Any, archive: Any, harm: str
    ) -> None:
        past(10)
        archive(keep=True)
        batch = ArchiveBatch.objects.get()
        files = sorted(Path(batch.path).rglob("*.parquet"))
        if harm == "damaged":
            files[0].write_bytes(b"PAR1" + b"\x00" * 100 + b"PAR1")
            Path(f"{files[0].parent}/.{files[0].name}.crc").unlink()
        elif harm == "gone":
            Path(batch.path).rename(f"{batch.root}/elsewhere")
        else:
            files[0].unlink()

        with pytest.raises((ArchiveDamaged, PipelineError), match="Nothing was deleted"):
            archive()

        assert History.objects.count() == 10
        assert ArchiveBatch.objects.get().state == ArchiveBatch.State.WRITTEN
        assert any(faults for _, faults in verifying.verify(spark, "default"))

    def test_a_root_may_be_an_address(self, spark: SparkSession, past: Any, tmp_path: Path) -> None:
        root = (tmp_path / "archive").as_uri()
        (tmp_path / "archive" / "batch=7-litter").mkdir(parents=True)
        past(5)

        done = job.archive(lambda: spark, "default", root, older_than=timedelta(0))

        assert done.path.startswith("file:///")
        assert (done.rows, done.deleted) == (5, 5)
        assert json.loads((tmp_path / "archive" / "_manifest" / f"{done.batch}.json").read_text())["rows"] == 5
        assert keeping.vacuum("default", grace_hours=0) == [f"{root}/batch=7-litter"]
        assert restore(spark, "default", DAY) == 5
        assert not [*(tmp_path / "archive").rglob("*.parquet")]

    def test_a_damaged_file_is_said_in_one_sentence(self, spark: SparkSession, past: Any, archive: Any) -> None:
        past(500)
        archive()
        file = next(Path(ArchiveBatch.objects.get().path).rglob("*.parquet"))
        Path(f"{file.parent}/.{file.name}.crc").unlink()
        whole = file.read_bytes()
        # A file ends with its footer, that one's length and four letters; before it are the columns.
        footer = 8 + int.from_bytes(whole[-8:-4], "little")

        for harm in (whole[: len(whole) // 2], whole[:4] + bytes(len(whole) - 4 - footer) + whole[-footer:]):
            file.write_bytes(harm)
            [(_, [fault])] = verifying.verify(spark, "default")

            assert re.fullmatch(r"Batch \d+.* (cannot be read: .*|has \d+ rows or other ones, .*)", fault)
            assert len(fault) < 400

    def test_small_batches_become_one(self, spark: SparkSession, past: Any, archive: Any) -> None:
        for number in range(3):
            past(5, published_at=MORNING + timedelta(days=number))
            archive()
        before = ids(spark, "default")

        new = keeping.compact(spark, "default")

        assert new is not None
        assert new.rows == 15
        assert [batch.pk for batch in manifest.readable("default")] == [new.pk]
        assert ids(spark, "default") == before
        assert len(keeping.vacuum("default", grace_hours=0)) == 3
        assert ids(spark, "default") == before
        assert keeping.compact(spark, "default") is None

    def test_old_days_go_and_the_others_stay(self, spark: SparkSession, past: Any, archive: Any) -> None:
        today = timezone.now() - timedelta(minutes=5)
        past(5)
        past(4, published_at=today)
        archive()

        assert keeping.forget_days("default", keep_days=2) == {DAY.isoformat(): 5}

        assert len(ids(spark, "default")) == 4
        assert all(not faults for _, faults in verifying.verify(spark, "default"))

    def test_a_day_comes_back_as_it_was(self, spark: SparkSession, past: Any, archive: Any) -> None:
        rows = past(12, body=b"\xff")
        archive()

        assert restore(spark, "default", DAY) == 12

        back = [*History.objects.order_by("id").values()]
        assert back == [
            {field.attname: getattr(row, field.attname) for field in History._meta.concrete_fields} for row in rows
        ]
        with pytest.raises(PipelineError, match=f"The archive holds nothing of {DAY}"):
            restore(spark, "default", DAY)
        assert archive().rows == 12

    def test_a_day_without_rows_is_said(self, spark: SparkSession, past: Any, archive: Any) -> None:
        past(1)
        archive()

        with pytest.raises(PipelineError, match="The archive holds nothing from 2031-01-01 to 2031-01-01"):
            archived(spark, "default", since=date(2031, 1, 1), until=date(2031, 1, 1))

    def test_deleting_goes_by_ids_alone(self, past: Any) -> None:
        import pyarrow as pa

        rows = past(5)
        batch = pa.RecordBatch.from_pydict({"id": [rows[1].pk, rows[3].pk, 10**9]})

        assert purging.delete_ids([batch], "default") == 2
        assert kept("default") == [rows[0].pk, rows[2].pk, rows[4].pk]

    def test_the_command_does_it_all(self, spark: SparkSession, past: Any, tmp_path: Path) -> None:
        past(6)

        def run(*arguments: str) -> str:
            out = io.StringIO()
            call_command("mq_spark", *arguments, stdout=out)
            return out.getvalue()

        root = str(tmp_path / "archive")
        assert "6 rows in" in run("archive", "--root", root, "--older-than", "0", "--keep")
        assert "6 deleted" in run("purge")
        assert "Nothing to purge" in run("purge")
        assert "Nothing to archive" in run("archive", "--root", root)
        assert "1 batches as their manifests say, 0 not" in run("verify")
        assert "Nothing to compact" in run("compact")
        assert "6 rows of 2026-03-02 put back" in run("restore", "--day", "2026-03-02")
        assert "0 days" in run("retain", "--days", "1")
        assert "deleted" in run("vacuum", "--grace-hours", "0")
        with pytest.raises(CommandError, match="holds nothing of 2026-03-02"):
            run("restore", "--day", "2026-03-02")
