"""Count the files of each kind, and what they import most often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count, Sum

from library.models import Import, ShelfReport, SourceFile

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many modules a report names.
MOST_IMPORTED = 3


def kinds_of_files() -> list[str]:
    """Return the kinds of files that there are."""
    return list(SourceFile.objects.order_by("kind").values_list("kind", flat=True).distinct())


def write_shelf_report(kind: str) -> dict[str, Any]:
    """Write the figures of one kind of files, in place of those of an earlier run, and return them."""
    indexed = SourceFile.objects.filter(kind=kind, status=SourceFile.Status.INDEXED)
    figures = indexed.aggregate(files=Count("pk"), lines=Sum("lines", default=0))
    modules = Import.objects.filter(source__in=indexed).order_by().values_list("module")
    often = modules.annotate(times=Count("pk")).order_by("-times", "module")[:MOST_IMPORTED]
    figures["most_imported"] = [module for module, _times in often]
    ShelfReport.objects.update_or_create(kind=kind, defaults=figures)
    return {"kind": kind, **figures}


def totals_of_shelves(shelves: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums, and the kind with the most lines."""
    largest = max(shelves, key=lambda shelf: shelf["lines"], default={"kind": ""})
    return {
        "files": sum(shelf["files"] for shelf in shelves),
        "lines": sum(shelf["lines"] for shelf in shelves),
        "largest": largest["kind"],
        "shelves": list(shelves),
    }
