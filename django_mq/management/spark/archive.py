"""The jobs of mq_spark for the archive: archive, purge, verify, abandon, compact, retain, vacuum, restore."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import argument
from django_mq.management.spark.jobs import job
from django_mq.management.spark.values import day_of, hours_of, lease_of

if TYPE_CHECKING:
    from datetime import date


@job(
    "Write finished messages into the archive, then delete them.",
    argument("--root", required=True, metavar="DIR", help="Where the archive is: a path or a URL."),
    argument(
        "--older-than",
        type=hours_of,
        default=24.0,
        metavar="HOURS",
        help="Archive messages that finished at least so long ago; default: 24.",
    ),
    argument("--keep", action="store_true", help="Delete no rows now; the next run deletes them."),
    argument(
        "--lease",
        type=lease_of,
        default=30.0,
        metavar="SECONDS",
        help="How long other runs wait after this run was killed; default: 30.",
    ),
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
            f"{PLAIN.number(done.deleted)} deleted from the history."
        )


@job("Delete the rows of a written batch from the history.")
def purge(command: Any, alias: str, **_: Any) -> None:
    from django_mq.pipeline.archive.job import purge as run

    done = run(command.session, alias)
    if done is None:
        command.stdout.write("Nothing to purge: the rows of every written batch are deleted already.")
    else:
        command.stdout.write(f"Batch {done[0]}: {PLAIN.number(done[1])} deleted from the history.")


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
            "The archive is damaged; nothing was changed. Restore the files, or run mq_spark abandon --batch N. "
            "The next archive run then archives the rows of the batch that are still in the history."
        )


@job(
    "Exclude a damaged batch from the archive; verify prints its number.",
    argument("--batch", type=int, required=True, metavar="N"),
)
def abandon(command: Any, alias: str, *, batch: int, **_: Any) -> None:
    from django_mq.pipeline.archive.maintenance import abandon as run

    rows, left = run(command.session(), alias, batch)
    command.stdout.write(
        f"Batch {batch} with {plural(rows, 'row')} is excluded from the archive. The history still has "
        f"{PLAIN.number(left)} rows of its time. vacuum will delete its directory."
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


@job(
    "Delete older days from the archive.",
    argument("--days", type=int, required=True, help="How many days to keep."),
)
def retain(command: Any, alias: str, *, days: int, **_: Any) -> None:
    from django_mq.pipeline.archive.maintenance import forget_days

    gone = forget_days(alias, days)
    command.stdout.write(f"{plural(len(gone), 'day')} with {plural(sum(gone.values()), 'row')} deleted.")


@job(
    "Delete directories that no manifest names.",
    argument(
        "--grace-hours",
        type=hours_of,
        default=24.0,
        metavar="HOURS",
        help="Keep younger directories; default: 24.",
    ),
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
            f"Maintenance will soon delete the rows of {', '.join(names)} again. The archive no longer has them. "
            "Raise history_days of these queues, or archive the day again."
        )


def _expired(alias: str, day: date) -> list[str]:
    """Return the queues that no longer keep a history as old as that day."""
    from django_mq.diagnosis.state.overdue import over
    from django_mq.models import History

    midnight = datetime.combine(day, time.min, tzinfo=UTC)
    rows = History.objects.using(alias).filter(
        finished_at__gte=midnight, finished_at__lt=midnight + timedelta(days=1)
    )
    return sorted(set(rows.filter(over(alias)).order_by().values_list("queue_name", flat=True).distinct()))
