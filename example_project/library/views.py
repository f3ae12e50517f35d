"""The page of the site: the current index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Count, Q, Sum
from django.shortcuts import render

from library.models import SourceFile, Summary

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def index(request: HttpRequest) -> HttpResponse:
    """Show totals by kind, and the summary once it is written."""
    kinds = (
        SourceFile.objects.values("kind", "priority")
        .annotate(
            files=Count("pk"),
            open=Count("pk", filter=Q(status__in=SourceFile.OPEN)),
            broken=Count("pk", filter=Q(status=SourceFile.Status.BROKEN)),
            lines=Sum("lines"),
        )
        .order_by("-priority")
    )
    return render(request, "library/index.html", {"kinds": kinds, "summary": Summary.objects.first()})
