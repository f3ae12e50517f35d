"""What the page of a message in the admin says of its batch, while it is in a queue and when it has finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import TextField
from django.db.models.functions import Cast
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.diagnosis.language import exact
from django_mq.engine.decisions.batches import BATCH_HEADER, CALLBACK_HEADER, MEMBER_HEADER
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest


def show(request: HttpRequest, message: Any) -> str:
    """Return what batch a message belongs to, or comes from, if the user may view batches."""
    if not request.user.has_perm("django_mq.view_messagebatch"):
        return ""
    alias = message._state.db  # noqa: SLF001 - Django's public habit
    # As text: a program may have written what is no JSON.
    stored = type(message).objects.using(alias).filter(pk=message.pk)
    headers = headers_in(stored.values_list(Cast("headers", TextField()), flat=True).first() or "{}")
    if (callback := _id(headers, CALLBACK_HEADER)) is not None:
        batch = MessageBatch.objects.using(alias).filter(pk=callback).first()
        return format_html(_("Published by the batch {}."), _link(request, batch)) if batch else ""
    batch_id, member_id = _id(headers, BATCH_HEADER), _id(headers, MEMBER_HEADER)
    if batch_id is None or member_id is None:
        return ""
    batch = MessageBatch.objects.using(alias).filter(pk=batch_id).first()
    member = BatchMember.objects.using(alias).filter(pk=member_id, batch=batch_id).first()
    if batch is None or member is None:
        return ""
    words = format_html(
        _("A member of the batch {}: {}. The batch is {}."),
        _link(request, batch),
        member.get_state_display(),
        batch.get_state_display(),
    )
    if batch.counted_at is None:
        return words
    ended, total = exact(batch.counts.ended), exact(batch.counts.total)
    return format_html("{} {}", words, _("%(ended)s of %(total)s have ended.") % {"ended": ended, "total": total})


def _id(headers: Mapping[str, Any], name: str) -> UUID | None:
    try:
        return UUID(headers[name])
    except (KeyError, ValueError, TypeError, AttributeError):
        return None  # or another program has written the header


def _link(request: HttpRequest, batch: MessageBatch) -> str:
    site = request.resolver_match.namespace if request.resolver_match else "admin"
    try:
        address = reverse(f"{site}:django_mq_messagebatch_change", args=[batch.pk])
    except NoReverseMatch:
        return str(batch)
    return format_html('<a href="{}">{}</a>', address, batch)
