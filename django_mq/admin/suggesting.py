"""Suggestions for the search of messages, as JSON; a script offers them where one types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import JsonResponse
from django.urls import path

from django_mq.admin.table import TableAdmin, alias
from django_mq.diagnosis.suggesting import suggestions

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


class Suggestions(TableAdmin):
    """Asked for when somebody goes to the search, and not with each page."""

    class Media:
        js = ["django_mq/suggestions.js"]

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.suggestions_view)
        return [path("suggestions.json", view, name="django_mq_message_suggestions"), *super().get_urls()]

    def suggestions_view(self, request: HttpRequest) -> HttpResponse:
        """Return terms that find messages. Needs permission to view them."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        # They are taken from the whole table, of which a site's own page may hide a part.
        found = suggestions(using=alias()) if self.is_as_its_address_says(request) else []
        return JsonResponse({"suggestions": found})
