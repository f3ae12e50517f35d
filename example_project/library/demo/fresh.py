"""Prepare the database: tables, an empty index, a login."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, transaction
from django_mq.models import Attempt, History, Message
from django_mq.results.models import StoredResult
from django_mq.workflows.models import WorkflowRun

from library.models import ShelfReport, SourceFile, Summary

USERNAME = PASSWORD = "demo"  # noqa: S105 - printed; the site listens on the loopback only


def prepare(*, keep: bool) -> None:
    """Prepare the database for the demo."""
    if not keep:
        remove_own_file()
    call_command("migrate", verbosity=0, interactive=False)
    if not keep:
        empty()
    create_login()


def remove_own_file() -> None:
    """Remove the example's own SQLite file; a database of DATABASE_URL is never removed."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or Path(name).parent != settings.VAR_DIR:
        return
    connection.close()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{name}{suffix}").unlink(missing_ok=True)


@transaction.atomic
def empty() -> None:
    """Remove the index, the messages and the history of an earlier demo."""
    names = list(settings.DJANGO_MQ["QUEUES"])
    SourceFile.objects.all().delete()
    Summary.objects.all().delete()
    ShelfReport.objects.all().delete()
    WorkflowRun.objects.all().delete()
    StoredResult.objects.all().delete()
    Message.objects.filter(queue__name__in=names).delete()
    History.objects.filter(queue_name__in=names).delete()
    Attempt.objects.filter(queue_name__in=names).delete()


def create_login() -> None:
    """Create the demo's user, or set its password again."""
    user, _ = get_user_model().objects.get_or_create(
        username=USERNAME, defaults={"is_staff": True, "is_superuser": True}
    )
    user.set_password(PASSWORD)
    user.save()
