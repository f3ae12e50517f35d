"""The room that the tables take on the disk, as a page and as JSON, by the database's own statistics."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import JsonResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _

from django_mq.admin.durations import duration
from django_mq.admin.table import TableAdmin, alias
from django_mq.diagnosis.space import measure

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


class SpacePage(TableAdmin):
    """Mixed into the queues' admin."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        own = [
            path("space/", view(self.space_view), name="django_mq_queue_space"),
            path("space.json", view(self.space_json_view), name="django_mq_queue_space_json"),
        ]
        return own + super().get_urls()

    def space_view(self, request: HttpRequest) -> HttpResponse:
        """Show the tables. Needs permission to view queues."""
        spaces, problems = self._measured(request)
        rows = [
            (space, None if space.tended_seconds is None else duration(space.tended_seconds)) for space in spaces
        ]
        request.current_app = self.admin_site.name
        page = {
            **self.admin_site.each_context(request),
            "title": _("Space on the disk"),
            "opts": self.opts,
            "media": self.media,
            "rows": rows,
            "problems": problems,
            "total": sum(space.size for space in spaces),
        }
        return TemplateResponse(request, "admin/django_mq/space.html", page)

    def space_json_view(self, request: HttpRequest) -> HttpResponse:
        """Return the same as JSON."""
        spaces, problems = self._measured(request)
        found = [{"sentence": sentence, "mend": mend} for sentence, mend in problems]
        return JsonResponse({"tables": [asdict(space) for space in spaces], "problems": found})

    def _measured(self, request: HttpRequest) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return measure(alias())
