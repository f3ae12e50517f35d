"""What operators did, the latest first: the admin's own log, of our tables, as a page and as JSON.

A page goes on from the key of its last entry, since the log has no index in any other order and may be large. A
word is looked for among the newest entries only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db.models import Max, Q
from django.http import JsonResponse
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin

#: Entries on a page, and newest ones among which a word is looked for.
PAGE = 50
SAMPLE = 10_000
#: Either shows a table, to the admin.
SEE = ("view", "change")


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show who did what, of the tables that the user may view."""
    entries, more = _entries(admin, request)
    return admin.page(
        request,
        "log",
        _("What operators did"),
        entries=[(entry, _address(admin, entry)) for entry in entries],
        term=request.GET.get("q", ""),
        more=entries[-1].pk if more else None,
    )


def as_json(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Return the same as JSON; ``?before=`` the number in ``more`` goes on."""
    entries, more = _entries(admin, request)
    found = [
        {
            "time": _aware(entry.action_time).isoformat(),
            "user": entry.user.get_username(),
            "about": entry.content_type.model if entry.content_type else "",
            "name": entry.object_repr,
            "words": entry.get_change_message(),
        }
        for entry in entries
    ]
    return JsonResponse({"entries": found, "more": entries[-1].pk if more else None})


def _entries(admin: TableAdmin, request: HttpRequest) -> tuple[Sequence[LogEntry], bool]:
    entries = _among(_kinds(admin, request), request.GET.get("q", "").strip())
    before = request.GET.get("before", "")
    if before.isdecimal():
        entries = entries.filter(pk__lt=int(before[:18]))
    found = list(entries.order_by("-pk").select_related("user", "content_type")[: PAGE + 1])
    return found[:PAGE], len(found) > PAGE


def _kinds(admin: TableAdmin, request: HttpRequest) -> list[int]:
    """Return the tables of ours that the user may view."""
    ours = apps.get_app_config(admin.opts.app_label).get_models()
    seen = [model for model in ours if any(admin.may(request, f"{may}_{model._meta.model_name}") for may in SEE)]
    return [kind.pk for kind in ContentType.objects.get_for_models(*seen).values()]


def _address(admin: TableAdmin, entry: LogEntry) -> str:
    """Return the page of what it is about; one that is gone says so itself."""
    if not entry.object_id or entry.content_type is None or entry.is_deletion():
        return ""
    name = f"{admin.admin_site.name}:{entry.content_type.app_label}_{entry.content_type.model}_change"
    try:
        return reverse(name, args=[entry.object_id])
    except NoReverseMatch:
        return ""


def _among(kinds: Sequence[int], term: str) -> QuerySet[LogEntry]:
    entries = LogEntry.objects.filter(content_type__in=kinds)
    if not term:
        return entries
    newest = LogEntry.objects.aggregate(newest=Max("pk"))["newest"] or 0
    words = Q(change_message__icontains=term) | Q(object_repr__icontains=term)
    user = Q((f"user__{get_user_model().USERNAME_FIELD}__icontains", term))
    return entries.filter(words | user, pk__gt=newest - SAMPLE)


def _aware(time: datetime) -> datetime:
    """Return the time with its zone, which Django leaves out without ``USE_TZ``."""
    return timezone.make_aware(time, timezone.get_default_timezone()) if timezone.is_naive(time) else time
