"""What runs now, the most unusual first, with a button to stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin import helpers
from django.http import JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from django_mq.admin.columns import breakable
from django_mq.admin.messages.actions import STOP
from django_mq.admin.messages.descriptions import describe, of_row
from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL, digits
from django_mq.diagnosis.state.running import running_now
from django_mq.models import Message, WorkerSession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.running import RunningMessage

#: The most rows on the page. The JSON view has all.
SHOWN = 100


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show what runs. Arguments and links take the permission to view messages."""
    found = running_now(using=alias())
    may_view = admin.may(request, "view_message")
    messages = _messages(found[:SHOWN]) if may_view else {}
    return admin.page(
        request,
        "running",
        _("Running now"),
        rows=[_row(admin, one, messages) for one in found[:SHOWN]],
        more=max(0, len(found) - SHOWN),
        may_view=may_view,
        may_stop=may_view and admin.may(request, STOP.permission),
        stop=STOP.name,
        stop_address=admin.list_address(Message),
        action_checkbox_name=helpers.ACTION_CHECKBOX_NAME,
        json=reverse(f"{admin.admin_site.name}:django_mq_workersession_running_json"),
    )


def as_json(_admin: TableAdmin, _request: HttpRequest) -> HttpResponse:
    """Return what runs as JSON, without arguments."""
    return JsonResponse({"running": [one.as_object() for one in running_now(using=alias())]})


def _messages(found: Sequence[RunningMessage]) -> dict[int, Message]:
    """Return the messages that run, with descriptions of their contents."""
    keys = [one.row_id for one in found]
    rows = Message.objects.using(alias()).filter(pk__in=keys).select_related("queue")
    messages = list(rows.defer("headers", "properties", "body").order_by())
    describe(messages)
    return {message.pk: message for message in messages}


def _row(admin: TableAdmin, one: RunningMessage, messages: Mapping[int, Message]) -> dict[str, Any]:
    message = messages.get(one.row_id)
    return {
        "one": one,
        "name": breakable(one.type or one.handler),
        "handler": breakable(one.handler) if one.type and one.handler != one.type else "",
        "worker": breakable(one.worker),
        "worker_address": admin.page_address(WorkerSession, one.session_id),
        "address": admin.page_address(Message, one.row_id) if message else "",
        "preview": of_row(message).preview if message else "",
        "elapsed": LOCAL.duration(one.seconds),
        "usual": LOCAL.precise(one.usual.p50) if one.usual else "-",
        "nearly_all": LOCAL.precise(one.usual.p95) if one.usual else "-",
        "times": _("%(count)s times") % {"count": digits(one.times_usual)} if one.times_usual >= 1 else "-",
    }
