"""The room that the tables take on the disk, as a page and as JSON, by the database's own statistics."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from django.http import JsonResponse
from django.utils.translation import gettext as _

from django_mq.admin.columns import duration
from django_mq.admin.table import alias
from django_mq.diagnosis.state.space import measure

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show the tables."""
    spaces, problems = measure(alias())
    rows = [(space, None if space.tended_seconds is None else duration(space.tended_seconds)) for space in spaces]
    total = sum(space.size for space in spaces)
    return admin.page(request, "space", _("Space on the disk"), rows=rows, problems=problems, total=total)


def as_json(_admin: TableAdmin, _request: HttpRequest) -> HttpResponse:
    """Return the same as JSON."""
    spaces, problems = measure(alias())
    found = [{"sentence": sentence, "mend": mend} for sentence, mend in problems]
    return JsonResponse({"tables": [asdict(space) for space in spaces], "problems": found})
