"""archive, purge, verify, abandon, compact, retain, vacuum, restore."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_mq.management.arguments import argument
from django_mq.management.spark.jobs import job
from django_mq.management.spark.values import day_of, hours_of, lease_of
from django_mq.management.tables import plural

if TYPE_CHECKING:
    from datetime import date


@job(
    "Write finished messages into the archive, then delete them.",
    argument("--root", required=True, metavar="DIR", help="Where the archive is: a path, or an address."),
    argument("--older-than", type=hours_of, default=24.0, metavar="HOURS", help="24 without it."),
    argument("--keep", action="store_true", help="Delete nothing before the next run."),
    argument("--lease", type=lease_of, default=30.0, metavar="SECONDS", help="How long a killed run blocks."),
)
def archive(command: Any, alias: str, *, root: str, older_than: float, keep: bool, lease: float, **_: Any) -> None:
    from django_mq.pipeline.archive.job import archive as run

    age = timedelta(hours=older_than)
    done = run(command.session, alias, root, older_than=age, keep=keep, lease_seconds=lease)
    if done.batch is None:
        command.stdout.write("Nothing to archive: the history has no rows that old.")
    else:
        command.stdout.write(
            f"Batch {done.batch}: {plural(done.rows, 'row')} in {done.path or 'no file'}, "
            f"{done.deleted:,} deleted from the history."
        )


@job("Finish a batch that was written and not purged.")
def purge(command: Any, alias: str, **_: Any) -> None:
    from django_mq.models import ArchiveBatch
    from django_mq.pipeline.archive import manifest, writer

    batch = manifest.under_way(alias)
    if batch is None or batch.state != ArchiveBatch.State.WRITTEN:
        command.stdout.write("Nothing to purge: no batch is written and not purged.")
        return
    with manifest.held(batch, alias) as attempt:
        deleted = writer.purge(command.session(), batch, alias, attempt)
    command.stdout.write(f"Batch {batch.pk}: {deleted:,} deleted from the history.")


@job("Read the whole archive and compare it with the manifests.")
def verify(command: Any, alias: str, **_: Any) -> None:
    from django_mq.pipeline.archive.reader import verify as run

    good, bad = 0, 0
    for _batch, faults in run(command.session(), alias):
        good, bad = good + (not faults), bad + bool(faults)
        for fault in faults:
            command.stdout.write(fault)
    command.stdout.write(f"{good} batches match their manifests, {bad} do not.")
    if bad:
        raise CommandError(
            "The archive is damaged; nothing was changed. Restore the files, or run mq_spark abandon --batch N: "
            "then the rows of the batch that the history still has are archived again."
        )


@job(
    "Exclude a damaged batch from the archive; verify prints its number.",
    argument("--batch", type=int, required=True, metavar="N"),
)
def abandon(command: Any, alias: str, *, batch: int, **_: Any) -> None:
    from django_mq.pipeline.archive.maintenance import abandon as run

    rows, left = run(command.session(), alias, batch)
    command.stdout.write(
        f"Batch {batch} no longer counts: it had {plural(rows, 'row')}, the history still has {left:,} "
        "of its time, and vacuum will delete its directory."
    )


@job("Write all batches into one, with larger files.")
def compact(command: Any, alias: str, **_: Any) -> None:
    from django_mq.pipeline.archive.maintenance import compact as run

    batch = run(command.session(), alias)
    command.stdout.write(
        "Nothing to compact: there is one batch at most."
        if batch is None
        else f"Batch {batch.pk}: {plural(batch.rows, 'row')} in {batch.path}."
    )


@job("Delete older days from the archive.", argument("--days", type=int, required=True))
def retain(command: Any, alias: str, *, days: int, **_: Any) -> None:
    from django_mq.pipeline.archive.maintenance import forget_days

    gone = forget_days(alias, days)
    command.stdout.write(f"{plural(len(gone), 'day')} with {plural(sum(gone.values()), 'row')} deleted.")


@job(
    "Delete directories that no manifest names.",
    argument("--grace-hours", type=hours_of, default=24.0, metavar="HOURS", help="Younger ones stay."),
)
def vacuum(command: Any, alias: str, *, grace_hours: float, **_: Any) -> None:
    from django_mq.pipeline.archive.maintenance import vacuum as run

    for path in run(alias, grace_hours=grace_hours):
        command.stdout.write(f"deleted {path}")


@job(
    "Restore a day of the archive to the history.",
    argument("--day", type=day_of, required=True, metavar="YYYY-MM-DD"),
)
def restore(command: Any, alias: str, *, day: date, **_: Any) -> None:
    from django_mq.pipeline.archive.restore import restore as run

    rows = run(command.session(), alias, day)
    command.stdout.write(f"{plural(rows, 'row')} of {day} restored to the history.")
    names = _expired(alias, day)
    if names:
        command.stderr.write(
            f"Maintenance will soon delete those of {', '.join(names)} again, and the archive no longer has them: "
            "raise the queues' history_days, or archive once more."
        )


def _expired(alias: str, day: date) -> list[str]:
    """Return the queues that keep their history for less time than since that day."""
    from django_mq.diagnosis.state.overdue import over
    from django_mq.models import History

    midnight = datetime.combine(day, time.min, tzinfo=UTC)
    rows = History.objects.using(alias).filter(
        finished_at__gte=midnight, finished_at__lt=midnight + timedelta(days=1)
    )
    return sorted(set(rows.filter(over(alias)).order_by().values_list("queue_name", flat=True).distinct()))
