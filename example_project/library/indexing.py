"""Write the results of parsing into the rows.

A message may come twice, so each step changes a row only if it stands where the step
before left it, and sends the next message in the transaction that changes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Count, Q, Sum
from django.utils import timezone
from django_mq.api import publish

from library.models import Import, SourceFile, Summary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from library.analysis import Facts

Status = SourceFile.Status


@transaction.atomic
def store_facts(file: SourceFile, facts: Facts) -> None:
    """Store the counts of a file, and publish its imports."""
    waiting = SourceFile.objects.filter(pk=file.pk, status=Status.WAITING)
    if waiting.update(
        status=Status.PARSED,
        lines=facts.lines,
        tokens=facts.tokens,
        comments=facts.comments,
        functions=facts.functions,
        classes=facts.classes,
    ):
        publish("facts", {"file": file.pk, "imports": facts.imports}, priority=file.priority)


def store_broken(file: SourceFile, error: Exception) -> None:
    """Store the reason why a file cannot be read."""
    waiting = SourceFile.objects.filter(pk=file.pk, status=Status.WAITING)
    waiting.update(status=Status.BROKEN, error=f"{type(error).__name__}: {error}")


@transaction.atomic
def store_imports(file_id: int, modules: Iterable[str]) -> None:
    """Store the import edges of a file, and mark the file as done."""
    parsed = SourceFile.objects.filter(pk=file_id, status=Status.PARSED)
    if parsed.update(status=Status.INDEXED):
        Import.objects.bulk_create(Import(source_id=file_id, module=module) for module in modules)


def open_files() -> int:
    """Return how many files are not done."""
    return SourceFile.objects.filter(status__in=SourceFile.OPEN).count()


def write_summary() -> None:
    """Write the totals, replacing older ones."""
    names = ("lines", "tokens", "comments", "functions", "classes")
    totals = SourceFile.objects.aggregate(
        files=Count("pk"),
        broken=Count("pk", filter=Q(status=Status.BROKEN)),
        **{name: Sum(name, default=0) for name in names},
    )
    totals |= {"imports": Import.objects.count(), "written_at": timezone.now()}
    Summary.objects.update_or_create(pk=1, defaults=totals)
