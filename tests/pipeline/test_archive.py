"""Out of the history and into the archive: every row once, and none deleted that is not there."""

from __future__ import annotations

import io
import json
import os
import re
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections
from django.utils import timezone

from django_mq.errors import ArchiveBusy, ArchiveDamaged, PipelineError, StoreError
from django_mq.management.spark.archive import _expired
from django_mq.models import ArchiveBatch, History, Queue
from django_mq.pipeline.archive import job, maintenance, manifest, reader, writer
from django_mq.pipeline.archive.maintenance import abandon
from django_mq.pipeline.archive.reader import archived, days
from django_mq.pipeline.archive.restore import _chunks, restore
from django_mq.pipeline.session import explaining
from tests.pipeline.conftest import MORNING, finished

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

DAY = MORNING.date()
#: A lease so long that it is not renewed during a test: an expired one stays expired.
NOT_RENEWED = 3600.0


@pytest.fixture
def archive(spark: SparkSession, committed_database: str, tmp_path: Path) -> Callable[..., job.Archived]:
    """Archive everything into the test's own root."""

    def run(**options: Any) -> job.Archived:
        options = {"older_than": timedelta(0), **options}
        return job.archive(lambda: spark, committed_database, str(tmp_path / "archive"), **options)

    return run


def ids(spark: SparkSession, alias: str) -> list[int]:
    return sorted(row["id"] for row in archived(spark, alias).select("id").collect())


def written(attempt: UUID) -> ArchiveBatch:
    """A batch that this attempt may purge."""
    return ArchiveBatch.objects.create(
        state=ArchiveBatch.State.WRITTEN,
        active=True,
        attempt=attempt,
        first_id=1,
        last_id=9,
        cutoff=timezone.now(),
        planned_at=timezone.now(),
    )


def change_bodies(file: Path) -> None:
    """Write a Parquet file once more that differs in the bodies alone, and is as whole as any."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.ParquetFile(file).read()
    bodies = pa.array([b"another"] * rows.num_rows, pa.binary())
    pq.write_table(rows.set_column(rows.schema.get_field_index("body"), "body", bodies), file)
    Path(f"{file.parent}/.{file.name}.crc").unlink()


def drop_column(file: Path, name: str) -> None:
    """Write a Parquet file once more without a column, as a version did that had no such column."""
    import pyarrow.parquet as pq

    pq.write_table(pq.ParquetFile(file).read().drop_columns([name]), file)
    Path(f"{file.parent}/.{file.name}.crc").unlink()


def kept(alias: str) -> list[int]:
    return sorted(History.objects.using(alias).values_list("id", flat=True))


@pytest.mark.on("postgresql")
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
    assert {"body", "headers"} < {*batch.signed}

    assert restore(spark, committed_database, DAY) == 30
    assert kept(committed_database) == before


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
def test_archive_raises_what_it_says(tmp_path: Path) -> None:
    from pyspark.errors import PySparkRuntimeError

    finished(1).save()

    def session() -> Any:
        raise PySparkRuntimeError("no such master")

    def broken(*_: Any) -> Any:
        raise OperationalError("gone")

    with pytest.raises(PipelineError, match="Spark failed: no such master"):
        job.archive(session, "default", str(tmp_path), older_than=timedelta(0))
    with connections["default"].execute_wrapper(broken), pytest.raises(StoreError, match="gone"):
        job.archive(session, "default", str(tmp_path), older_than=timedelta(0))


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
        writer.write_days(writer.source(spark, batch, committed_database), dead)

        done = archive()

        assert (done.batch, done.rows, done.deleted) == (batch.pk, 20, 20)
        assert len(ids(spark, committed_database)) == 20
        assert maintenance.vacuum(committed_database) == []
        assert maintenance.vacuum(committed_database, grace_hours=0) == [dead]
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

    def test_deleted_rows_are_counted_over_all_runs(
        self, past: Any, archive: Any, committed_database: str
    ) -> None:
        import pyarrow as pa

        rows = past(20)
        archive(keep=True)
        batch = ArchiveBatch.objects.get()
        with manifest.held(batch, committed_database) as attempt:
            told = {"id": [row.pk for row in rows[:5]], "message_id": [str(row.message_id) for row in rows[:5]]}
            # A run that dies after it has deleted these.
            assert writer.delete_rows([pa.RecordBatch.from_pydict(told)], "default", batch.pk, attempt) == 5

        assert archive().deleted == 15
        assert ArchiveBatch.objects.get().purged_rows == 20

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
        with manifest.held(batch, "default", NOT_RENEWED) as slow:
            ArchiveBatch.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
            with manifest.held(batch, "default"), pytest.raises(ArchiveBusy, match="has taken this batch over"):
                manifest.mark_written(batch, "default", slow, "nowhere")

    def test_a_root_that_cannot_be_written_is_refused_before_anything_is_planned(
        self, past: Any, spark: SparkSession, tmp_path: Path
    ) -> None:
        past(2)
        (tmp_path / "file").write_text("")

        with pytest.raises(PipelineError, match="cannot be written"):
            job.archive(lambda: spark, "default", str(tmp_path / "file" / "root"), older_than=timedelta(0))

        assert ArchiveBatch.objects.count() == 0

    @pytest.mark.parametrize("harm", ["gone", "damaged", "shorter", "another body"])
    def test_nothing_is_purged_that_is_not_in_the_archive(
        self, spark: SparkSession, past: Any, archive: Any, harm: str
    ) -> None:
        past(10, body=b"as it was")
        archive(keep=True)
        batch = ArchiveBatch.objects.get()
        files = sorted(Path(batch.path).rglob("*.parquet"))
        if harm == "damaged":
            files[0].write_bytes(b"PAR1" + b"\x00" * 100 + b"PAR1")
            Path(f"{files[0].parent}/.{files[0].name}.crc").unlink()
        elif harm == "another body":
            change_bodies(files[0])
        elif harm == "gone":
            Path(batch.path).rename(f"{batch.root}/elsewhere")
        else:
            files[0].unlink()

        with pytest.raises((ArchiveDamaged, PipelineError), match="Nothing was deleted"):
            archive()

        assert History.objects.count() == 10
        assert ArchiveBatch.objects.get().state == ArchiveBatch.State.WRITTEN
        assert any(faults for _, faults in reader.verify(spark, "default"))

        assert abandon(spark, "default", batch.pk) == (10, 10)
        assert archive().deleted == 10
        assert len(ids(spark, "default")) == 10
        [whole] = manifest.readable("default")
        with pytest.raises(PipelineError, match=f"Batch {whole.pk} is as its manifest says"):
            abandon(spark, "default", whole.pk)
        with pytest.raises(PipelineError, match=f"no batch {batch.pk}; mq_spark verify names"):
            abandon(spark, "default", batch.pk)

    @pytest.mark.parametrize("harm", ["removed", "emptied", "doubled", "grown", "no directory", "no day"])
    def test_a_reader_refuses_files_that_are_not_those_of_the_manifest(
        self, spark: SparkSession, past: Any, archive: Any, harm: str
    ) -> None:
        past(2)
        past(2, published_at=MORNING + timedelta(days=1))
        archive()
        batch = ArchiveBatch.objects.get()
        day = Path(batch.path, f"day={DAY}")
        file = next(day.rglob("*.parquet"))
        harms: dict[str, Callable[[], Any]] = {
            "removed": file.unlink,
            "emptied": lambda: file.write_bytes(b""),
            "doubled": lambda: file.with_name("again.parquet").write_bytes(file.read_bytes()),
            "grown": lambda: change_bodies(file),
            "no directory": lambda: Path(batch.path).rename(f"{batch.root}/elsewhere"),
            "no day": lambda: day.rename(f"{batch.root}/elsewhere"),
        }
        harms[harm]()

        for read in (lambda: archived(spark, "default"), lambda: archived(spark, "default", since=DAY, until=DAY)):
            with pytest.raises(ArchiveDamaged, match=f"run mq_spark verify, or .* abandon --batch {batch.pk}"):
                read()
        [(_, [fault])] = reader.verify(spark, "default")
        assert ArchiveBatch.objects.get().fault == fault

    def test_a_batch_that_verify_finds_damaged_is_not_read_until_it_is_whole_again(
        self, spark: SparkSession, past: Any, archive: Any
    ) -> None:
        past(3, body=b"as it was")
        archive()
        batch = ArchiveBatch.objects.get()
        file = next(Path(batch.path).rglob("*.parquet"))
        whole, [name] = file.read_bytes(), batch.files
        change_bodies(file)
        # As if the file had kept its size.
        ArchiveBatch.objects.update(files={name: file.stat().st_size})

        [(_, [fault])] = reader.verify(spark, "default")
        with pytest.raises(ArchiveDamaged, match=re.escape(fault)):
            archived(spark, "default")
        file.write_bytes(whole)
        ArchiveBatch.objects.update(files=batch.files)
        assert [faults for _, faults in reader.verify(spark, "default")] == [[]]

        assert {bytes(row["body"]) for row in archived(spark, "default").collect()} == {b"as it was"}

    def test_a_byte_of_a_file_that_has_changed_is_not_read_silently(
        self, spark: SparkSession, past: Any, archive: Any
    ) -> None:
        past(50, body=b"as it was")
        archive()
        file = next(Path(ArchiveBatch.objects.get().path).rglob("*.parquet"))
        Path(f"{file.parent}/.{file.name}.crc").unlink()
        whole = file.read_bytes()
        columns = range(4, len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"))
        rows = archived(spark, "default").orderBy("id").collect()

        for place in columns[40 :: len(columns) // 7]:
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with suppress(PipelineError), explaining():
                assert archived(spark, "default").orderBy("id").collect() == rows

    def test_sizes_of_an_older_batch_are_kept_once_it_is_found_whole(
        self, spark: SparkSession, past: Any, archive: Any
    ) -> None:
        past(2)
        archive()
        sizes = ArchiveBatch.objects.get().files
        ArchiveBatch.objects.update(files=None)

        assert [faults for _, faults in reader.verify(spark, "default")] == [[]]

        assert len(sizes) == 1
        assert ArchiveBatch.objects.get().files == sizes

    def test_a_root_may_be_an_address(self, spark: SparkSession, past: Any, tmp_path: Path) -> None:
        root = (tmp_path / "archive").as_uri()
        (tmp_path / "archive" / "batch=7-litter").mkdir(parents=True)
        past(5)

        done = job.archive(lambda: spark, "default", root, older_than=timedelta(0))

        assert done.path.startswith("file:///")
        assert (done.rows, done.deleted) == (5, 5)
        assert json.loads((tmp_path / "archive" / "_manifest" / f"{done.batch}.json").read_text())["rows"] == 5
        assert maintenance.vacuum("default", grace_hours=0) == [f"{root}/batch=7-litter"]
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

        ArchiveBatch.objects.update(
            files=None
        )  # as of an older version: with sizes, verify need not read the file
        for harm in (whole[: len(whole) // 2], whole[:4] + bytes(len(whole) - 4 - footer) + whole[-footer:]):
            file.write_bytes(harm)
            [(_, [fault])] = reader.verify(spark, "default")

            assert re.fullmatch(r"Batch \d+.* (cannot be read: .*|has \d+ rows or other ones, .*)", fault)
            assert len(fault) < 400

    def test_small_batches_become_one(self, spark: SparkSession, past: Any, archive: Any) -> None:
        for number in range(3):
            past(5, published_at=MORNING + timedelta(days=number))
            archive()
        before = ids(spark, "default")

        new = maintenance.compact(spark, "default")

        assert new is not None
        assert new.rows == 15
        assert [batch.pk for batch in manifest.readable("default")] == [new.pk]
        assert ids(spark, "default") == before
        copies = {path.name for path in Path(new.root, "_manifest").iterdir() if path.suffix == ".json"}
        assert copies == {f"{new.pk}.json"}
        assert len(maintenance.vacuum("default", grace_hours=0)) == 3
        assert ids(spark, "default") == before
        assert not any(faults for _, faults in reader.verify(spark, "default"))
        assert maintenance.compact(spark, "default") is None

    def test_old_days_go_and_the_others_stay(self, spark: SparkSession, past: Any, archive: Any) -> None:
        today = timezone.now() - timedelta(minutes=5)
        past(5)
        past(4, published_at=today)
        archive()

        assert maintenance.forget_days("default", keep_days=2) == {DAY.isoformat(): 5}

        assert len(ids(spark, "default")) == 4
        assert all(not faults for _, faults in reader.verify(spark, "default"))

    def test_a_day_comes_back_as_it_was(self, spark: SparkSession, past: Any, archive: Any) -> None:
        rows = past(12, body=b"\xff", redelivered=True)
        archive()

        assert restore(spark, "default", DAY) == 12

        back = [*History.objects.order_by("id").values()]
        assert back == [
            {field.attname: getattr(row, field.attname) for field in History._meta.concrete_fields} for row in rows
        ]
        with pytest.raises(PipelineError, match=f"The archive holds nothing of {DAY}"):
            restore(spark, "default", DAY)
        assert archive().rows == 12

    def test_a_day_stays_in_the_archive_if_the_history_has_other_rows_under_its_ids(
        self, spark: SparkSession, past: Any, archive: Any
    ) -> None:
        first = past(3)[0]
        archive()
        other = finished(99)
        other.pk = first.pk
        other.save(force_insert=True)

        with pytest.raises(PipelineError, match=f"another row under the id {first.pk}.* stays in the archive"):
            restore(spark, "default", DAY)

        assert len(ids(spark, "default")) == 3

    def test_a_batch_of_an_older_version_is_compared_by_what_it_signed(
        self, spark: SparkSession, past: Any, archive: Any
    ) -> None:
        past(3)
        archive(keep=True)
        batch = ArchiveBatch.objects.get()
        drop_column(next(Path(batch.path).rglob("*.parquet")), "redelivered")
        batch.days, batch.signed, batch.files = reader.fingerprints(spark, None, batch.path), None, None
        batch.save()

        assert {row["redelivered"] for row in archived(spark, "default").collect()} == {None}
        assert reader.faults(spark, batch, "default") == []
        assert archive().deleted == 3
        past(2)
        archive()
        new = maintenance.compact(spark, "default")

        assert new is not None
        assert new.rows == 5
        assert "body" in new.signed

    def test_what_was_written_is_on_the_disk_before_it_counts(
        self, past: Any, archive: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settled: set[int] = set()
        monkeypatch.setattr(os, "fsync", lambda descriptor: settled.add(os.fstat(descriptor).st_ino))
        past(3)

        path = Path(archive().path)

        assert {each.stat().st_ino for each in [path.parent, path, *path.rglob("*")]} <= settled

    def test_who_keeps_house_is_alone(self, past: Any, archive: Any) -> None:
        past(2)

        with manifest.alone("default", seconds=NOT_RENEWED) as check:
            with pytest.raises(ArchiveBusy, match=r"The archive is being maintained by .*; wait"):
                archive()
            with pytest.raises(ArchiveBusy, match="is being maintained"):
                maintenance.vacuum("default")
            ArchiveBatch.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
            archive(keep=True)
            with pytest.raises(ArchiveBusy, match="another one has taken over"):
                check()

        for act in (lambda: maintenance.forget_days("default", 1), lambda: maintenance.vacuum("default")):
            with pytest.raises(ArchiveBusy, match="was begun and is not finished"):
                act()
        assert archive().deleted == 2
        assert ArchiveBatch.objects.count() == 1

    def test_a_restore_that_was_cut_off_is_finished_first(self, past: Any, archive: Any) -> None:
        past(2)
        with manifest.alone("default", restoring="2026-03-02"):
            ArchiveBatch.objects.update(lease_until=timezone.now() - timedelta(seconds=1))

            for act in (archive, lambda: maintenance.vacuum("default")):
                with pytest.raises(ArchiveBusy, match="finish it with mq_spark restore --day 2026-03-02 first"):
                    act()
            with manifest.alone("default", restoring="2026-03-02"):
                pass

        assert archive(keep=True).rows == 2

    def test_a_root_is_one_database_s(self, spark: SparkSession, past: Any, archive: Any, tmp_path: Path) -> None:
        past(2)
        archive()
        other = tmp_path / "archive" / "batch=9-other"
        other.mkdir()
        told = tmp_path / "archive" / "_manifest" / "9.json"
        told.write_text(json.dumps({"batch": 9, "path": str(other), "rows": 1, "days": {}}))
        past(1)

        for act in (archive, lambda: maintenance.vacuum("default", grace_hours=0)):
            with pytest.raises(PipelineError, match=r"9\.json is a batch that this database does not know"):
                act()
        assert other.is_dir()
        assert History.objects.count() == 1

        told.unlink()
        # The same root in another spelling: what is named is no litter.
        done = job.archive(lambda: spark, "default", (tmp_path / "archive").as_uri(), older_than=timedelta(0))
        assert {Path(path).name for path in maintenance.vacuum("default", grace_hours=0)} == {other.name}
        assert done.deleted == 1
        assert len(ids(spark, "default")) == 3

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["archive", "--root", "", "--older-than", "0"], "root is empty"),
            (["archive", "--root", "/x", "--older-than", "nan"], "'nan' is no number of hours"),
            (["archive", "--root", "/x", "--older-than", "-1"], "in the future"),
            (["archive", "--root", "/x", "--lease", "0"], "'0' is no number of seconds"),
            (["retain", "--days", "0"], "--days is 0; keep 1 day or more"),
            (["retain", "--days", "99999999999"], "none from before the year 1"),
            (["vacuum", "--grace-hours", "1e99"], "'1e99' is no number of hours"),
            (["insights", "--days", "0"], "--days is 0; use 1 or more"),
            (["export", "--days", "99999999999"], "none from before the year 1"),
            (["insights", "--slo", "nan"], "'nan' is no number of seconds"),
            (["restore", "--day", "tomorrow"], "'tomorrow' is no day; write it as 2026-03-02"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, arguments: list[str], said: str) -> None:
        with pytest.raises(CommandError, match=re.escape(said)):
            call_command("mq_spark", *arguments)

    def test_a_day_without_rows_is_said(self, spark: SparkSession, past: Any, archive: Any) -> None:
        past(1)
        archive()

        with pytest.raises(PipelineError, match="The archive holds nothing from 2031-01-01 to 2031-01-01"):
            archived(spark, "default", since=date(2031, 1, 1), until=date(2031, 1, 1))

    def test_a_statement_of_a_restore_is_bounded_by_bytes(self) -> None:
        import pyarrow as pa

        bodies = [b"", None, bytes(3_000_000), bytes(3_000_000), bytes(5_000_000), *[b"x"] * 700]
        batch = pa.RecordBatch.from_pydict({"headers": [None] * len(bodies), "body": bodies})

        chunks = [*_chunks(batch)]

        assert [chunk.num_rows for chunk in chunks] == [3, 1, 1, 500, 200]
        assert [body for chunk in chunks for body in chunk["body"].to_pylist()] == bodies

    def test_deleting_goes_by_what_was_read_back_alone(self, past: Any) -> None:
        import pyarrow as pa

        rows = past(5)
        read = [(rows[1].pk, rows[1]), (rows[3].pk, rows[3]), (10**9, rows[4]), (rows[0].pk, finished(99))]
        told = {"id": [pk for pk, _ in read], "message_id": [str(row.message_id) for _, row in read]}
        batch = written(attempt := uuid4())

        assert writer.delete_rows([pa.RecordBatch.from_pydict(told)], "default", batch.pk, attempt) == 2
        assert kept("default") == [rows[0].pk, rows[2].pk, rows[4].pk]

    def test_who_was_taken_over_deletes_nothing_and_says_so(
        self, spark: SparkSession, past: Any, archive: Any
    ) -> None:
        """It slept over its lease; the other has purged, and a day was restored: its rows are nowhere else."""
        import pyarrow as pa

        rows = past(5)
        archive(keep=True)
        slow = ArchiveBatch.objects.get()
        with manifest.held(slow, "default", NOT_RENEWED) as attempt:
            slow.refresh_from_db()
            ArchiveBatch.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
            assert archive().deleted == 5
            assert restore(spark, "default", DAY) == 5

            ids, messages = [row.pk for row in rows], [str(row.message_id) for row in rows]
            told = pa.RecordBatch.from_pydict({"id": ids, "message_id": messages})
            assert writer.delete_rows([told], "default", slow.pk, attempt) == 0
            with pytest.raises(ArchiveBusy, match="has taken this batch over"):
                manifest.mark_purged(slow, "default", attempt)

        assert History.objects.count() == 5

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
        assert "1 batches match their manifests, 0 do not" in run("verify")
        assert "Nothing to compact" in run("compact")
        assert "6 rows of 2026-03-02 restored" in run("restore", "--day", "2026-03-02")
        assert _expired("default", DAY) == ["orders"]
        Queue.objects.create(name="orders", history_days=100_000)
        assert _expired("default", DAY) == []
        assert "0 days" in run("retain", "--days", "1")
        assert "deleted" in run("vacuum", "--grace-hours", "0")
        with pytest.raises(CommandError, match="holds nothing of 2026-03-02"):
            run("restore", "--day", "2026-03-02")
