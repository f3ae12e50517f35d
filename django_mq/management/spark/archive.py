"""archive, purge, verify, abandon, compact, retain, vacuum, restore."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_mq.management.spark.values import day_of, hours_of, lease_of
from django_mq.management.tables import plural

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date


def add_archive_jobs(jobs: Any) -> None:
    """Add the jobs' options to the command line."""
    archive = jobs.add_parser("archive", help="Write finished messages into the archive, then delete them.")
    archive.add_argument(
        "--root", required=True, metavar="DIR", help="Where the archive is: a path, or an address."
    )
    archive.add_argument("--older-than", type=hours_of, default=24.0, metavar="HOURS", help="24 without it.")
    archive.add_argument("--keep", action="store_true", help="Delete nothing before the next run.")
    archive.add_argument(
        "--lease", type=lease_of, default=30.0, metavar="SECONDS", help="How long a killed run blocks."
    )
    jobs.add_parser("purge", help="Finish a batch that was written and not purged.")
    jobs.add_parser("verify", help="Read the whole archive and compare it with the manifests.")
    abandon = jobs.add_parser("abandon", help="Let a damaged batch no longer count; verify names its number.")
    abandon.add_argument("--batch", type=int, required=True, metavar="N")
    jobs.add_parser("compact", help="Write all batches into one, with larger files.")
    retain = jobs.add_parser("retain", help="Delete days from the archive that are older than that.")
    retain.add_argument("--days", type=int, required=True)
    vacuum = jobs.add_parser("vacuum", help="Delete directories that no manifest names.")
    vacuum.add_argument("--grace-hours", type=hours_of, default=24.0, metavar="HOURS", help="Younger ones stay.")
    restore = jobs.add_parser("restore", help="Put a day of the archive back into the history.")
    restore.add_argument("--day", type=day_of, required=True, metavar="YYYY-MM-DD")


def archive(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.archive.job import archive as run

    done = run(
        lambda: command.session(options),
        alias,
        options["root"],
        older_than=timedelta(hours=options["older_than"]),
        keep=options["keep"],
        lease_seconds=options["lease"],
    )
    if done.batch is None:
        command.say("Nothing to archive: the history has no rows that old.")
    else:
        command.say(
            f"Batch {done.batch}: {plural(done.rows, 'row')} in {done.path or 'no file'}, "
            f"{done.deleted:,} deleted from the history."
        )


def purge(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.models import ArchiveBatch
    from django_mq.pipeline.archive import manifest, writing

    batch = manifest.under_way(alias)
    if batch is None or batch.state != ArchiveBatch.State.WRITTEN:
        command.say("Nothing to purge: no batch is written and not purged.")
        return
    with manifest.held(batch, alias) as attempt:
        deleted = writing.purge(command.session(options), batch, alias, attempt)
    command.say(f"Batch {batch.pk}: {deleted:,} deleted from the history.")


def verify(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.archive.reading import verify as run

    good, bad = 0, 0
    for _, faults in run(command.session(options), alias):
        good, bad = good + (not faults), bad + bool(faults)
        for fault in faults:
            command.say(fault)
    command.say(f"{good} batches as their manifests say, {bad} not.")
    if bad:
        raise CommandError(
            "The archive is damaged; nothing was changed. Bring the files back, or mq_spark abandon --batch N: "
            "what the history still has of a batch is archived anew."
        )


def abandon(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.archive.keeping import abandon as run

    rows, left = run(command.session(options), alias, options["batch"])
    command.say(
        f"Batch {options['batch']} no longer counts: it had {plural(rows, 'row')}, the history still has {left:,} "
        "of its time, and vacuum will delete its directory."
    )


def compact(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.archive.keeping import compact as run

    batch = run(command.session(options), alias)
    command.say(
        "Nothing to compact: there is one batch at most."
        if batch is None
        else f"Batch {batch.pk}: {plural(batch.rows, 'row')} in {batch.path}."
    )


def retain(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.archive.keeping import forget_days

    gone = forget_days(alias, options["days"])
    command.say(f"{plural(len(gone), 'day')} with {plural(sum(gone.values()), 'row')} deleted.")


def vacuum(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.archive.keeping import vacuum as run

    for path in run(alias, grace_hours=options["grace_hours"]):
        command.say(f"deleted {path}")


def restore(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.archive.restoring import restore as run

    rows = run(command.session(options), alias, options["day"])
    command.say(f"{plural(rows, 'row')} of {options['day']} put back into the history.")
    names = passing(alias, options["day"])
    if names:
        command.stderr.write(
            f"Maintenance will soon delete those of {', '.join(names)} again, and the archive no longer has them: "
            "raise the queues' history_days, or archive once more."
        )


def passing(alias: str, day: date) -> list[str]:
    """Return the queues whose history of that day is over its time."""
    from django_mq.diagnosis.state.overdue import over
    from django_mq.models import History

    midnight = datetime.combine(day, time.min, tzinfo=UTC)
    rows = History.objects.using(alias).filter(
        finished_at__gte=midnight, finished_at__lt=midnight + timedelta(days=1)
    )
    return sorted(set(rows.filter(over(alias)).order_by().values_list("queue_name", flat=True).distinct()))


ARCHIVE_JOBS: dict[str, Callable[[Any, str, dict[str, Any]], None]] = {
    "archive": archive,
    "purge": purge,
    "verify": verify,
    "abandon": abandon,
    "compact": compact,
    "retain": retain,
    "vacuum": vacuum,
    "restore": restore,
}
