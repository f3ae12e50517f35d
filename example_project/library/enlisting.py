"""Add files to the index: their rows and their messages in one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django_mq.api import publish
from django_mq.models import Message

from library.models import SourceFile, Summary
from library.tasks import index_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from library.shelves import Source

#: First look of the closing message; it comes again until every file is done.
CLOSING_DELAY = timedelta(seconds=3)


@transaction.atomic
def enlist(batch: Iterable[Source]) -> list[SourceFile]:
    """Create the rows of some files and send the task of each. Both exist, or neither."""
    files = SourceFile.objects.bulk_create(
        SourceFile(path=source.path, location=source.location, kind=source.kind, priority=source.priority)
        for source in batch
    )
    for file in files:
        index_file.apply_async(args=[file.pk], task_id=str(file.task_id), priority=file.priority)
    return files


@transaction.atomic
def announce_closing() -> None:
    """Publish the scheduled message that writes the summary."""
    Summary.objects.all().delete()
    publish("closing", delay=CLOSING_DELAY)


def rehearse_rollback(batch: list[Source]) -> tuple[int, int]:
    """Enlist some files and roll it back; return how many rows and messages are left of them."""
    with transaction.atomic():
        files = enlist(batch)
        transaction.set_rollback(True)
    return (
        SourceFile.objects.filter(path__in=[file.path for file in files]).count(),
        Message.objects.filter(correlation_id__in=[str(file.task_id) for file in files]).count(),
    )
