"""The result of a Celery task on the page of its message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.translation import gettext

from django_mq.diagnosis.language import LOCAL
from django_mq.results import shown
from django_mq.results.models import StoredResult

if TYPE_CHECKING:
    from django.http import HttpRequest


def show(request: HttpRequest, message: Any) -> str:
    """Return the state of the task of a message, live or finished, and what it has returned."""
    if not message.correlation_id or not request.user.has_perm("django_mq.view_storedresult"):
        return ""
    alias = message._state.db  # noqa: SLF001 - Django's public habit
    rows = StoredResult.objects.using(alias).filter(task_id=message.correlation_id)
    row = shown.with_message(rows.defer(*shown.LONG)).first()
    if row is None:
        return ""
    words = row.status if row.done_at is None else f"{row.status}, {LOCAL.time(row.done_at)}"
    try:
        address = reverse("admin:django_mq_storedresult_change", args=[row.pk])
    except NoReverseMatch:
        named = words
    else:
        named = format_html('<a href="{}">{}</a>', address, words)
    return format_html(
        '{}<pre class="mq-payload" tabindex="0" role="region" aria-label="{}">{}</pre>',
        named,
        gettext("Result"),
        shown.line(row),
    )
