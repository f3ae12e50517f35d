"""What operators did: the log entries of our tables, the latest first.

The next page continues from the key of the last entry: the log may be large and has no other index. A search reads
only the newest entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db.models import Max, Q
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from django_mq.admin.addresses import message_address
from django_mq.conf import as_django
from django_mq.diagnosis.messages.life import id_in
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin

#: Entries on a page, and newest entries that a search reads.
PAGE = 50
SAMPLE = 10_000
#: With either permission a user may view a table.
SEE = ("view", "change")


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show the entries of the tables that the user may view."""
    entries, more = _entries(admin, request)
    return admin.page(
        request,
        "log",
        _("What operators did"),
        entries=[(entry, _address(admin, entry)) for entry in entries],
        term=request.GET.get("q", ""),
        more=entries[-1].pk if more else None,
    )


def _entries(admin: TableAdmin, request: HttpRequest) -> tuple[Sequence[LogEntry], bool]:
    entries = _among(_kinds(admin, request), request.GET.get("q", "").strip())
    before = request.GET.get("before", "")
    if before.isdecimal():
        entries = entries.filter(pk__lt=int(before[:18]))
    found = list(entries.order_by("-pk").select_related("user", "content_type")[: PAGE + 1])
    return found[:PAGE], len(found) > PAGE


def _kinds(admin: TableAdmin, request: HttpRequest) -> list[int]:
    """Return the content types of our tables that the user may view."""
    ours = apps.get_app_config(admin.opts.app_label).get_models()
    seen = [model for model in ours if any(admin.may(request, f"{may}_{model._meta.model_name}") for may in SEE)]
    return [kind.pk for kind in ContentType.objects.get_for_models(*seen).values()]


def _address(admin: TableAdmin, entry: LogEntry) -> str:
    """Return the URL of the changed object, or nothing. A message keeps that of its id when its row has gone."""
    if entry.content_type is not None and entry.content_type.model_class() is Message:
        return message_address(admin, id_in(entry.object_repr))
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
    words = Q(change_message__icontains=term) | Q(object_repr__icontains=term)
    user = Q((f"user__{get_user_model().USERNAME_FIELD}__icontains", term))
    return _newest(entries).filter(words | user)


def _newest(entries: QuerySet[LogEntry]) -> QuerySet[LogEntry]:
    newest = LogEntry.objects.aggregate(newest=Max("pk"))["newest"] or 0
    return entries.filter(pk__gt=newest - SAMPLE)


def about(message_ids: Iterable[UUID], since: datetime) -> list[LogEntry]:
    """Return the newest entries that name one of these messages, among the newest of all, the latest first."""
    words = Q()
    for message_id in message_ids:
        words |= Q(change_message__contains=str(message_id)) | Q(object_repr=str(message_id))
    kind = ContentType.objects.get_for_model(Message)
    entries = _newest(LogEntry.objects.filter(content_type=kind, action_time__gte=as_django(since)))
    return list(entries.filter(words).order_by("-pk").select_related("user")[:PAGE])
