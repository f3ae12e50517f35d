"""The archive from end to end: resume the batch that is under way, or plan one; write; purge."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django_mq.errors import PipelineError
from django_mq.models import ArchiveBatch
from django_mq.pipeline.archive import files, manifest, writer
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a run."""

    batch: int | None
    rows: int
    deleted: int
    path: str


NOTHING = Archived(None, 0, 0, "")


def archive(
    session: Callable[[], SparkSession],
    alias: str,
    root: str,
    *,
    older_than: timedelta,
    keep: bool = False,
    lease_seconds: float = manifest.LEASE_SECONDS,
) -> Archived:
    """Archive rows finished longer ago than ``older_than``; first finish the batch of an earlier run.

    With ``keep`` the rows stay in the history until the next run. Spark is started only if there is
    work. Raises PipelineError, ArchiveBusy, ArchiveDamaged, SparkUnavailable, and StoreError if the database
    fails; only rows that are in the archive are deleted.
    """
    with explaining(alias):
        begun = manifest.under_way(alias)
        batch = begun or _plan(alias, root, older_than)
        if batch is None:
            return NOTHING
        with manifest.held(batch, alias, lease_seconds) as attempt:
            batch.refresh_from_db(using=alias)
            spark = session()
            if batch.state == ArchiveBatch.State.PLANNED:
                files.check_writable(batch.root)
                writer.write(spark, batch, alias, attempt)
            deleted = 0 if keep else writer.purge(spark, batch, alias, attempt)
    return Archived(batch.pk, batch.rows, deleted, batch.path)


def purge(session: Callable[[], SparkSession], alias: str) -> tuple[int, int] | None:
    """Delete the rows of the written batch from the history; return its number and how many rows there were.

    None if no batch is written and not purged. Raises as ``archive`` does.
    """
    with explaining(alias):
        batch = manifest.under_way(alias)
        if batch is None or batch.state != ArchiveBatch.State.WRITTEN:
            return None
        with manifest.held(batch, alias) as attempt:
            return batch.pk, writer.purge(session(), batch, alias, attempt)


def _plan(alias: str, root: str, older_than: timedelta) -> ArchiveBatch | None:
    if older_than < timedelta(0):
        raise PipelineError("Messages that finish in the future cannot be archived; give 0 hours or more.")
    now = datetime.now(UTC)
    if older_than.days >= now.toordinal() - 1:
        return None  # before the year 1
    if not root:
        raise PipelineError("The archive's root is empty; say in which directory, or at which address, it is.")
    place = files.absolute(root)
    files.check_writable(place)
    manifest.check_own(place, alias)
    return manifest.plan(alias, place, now - older_than)
