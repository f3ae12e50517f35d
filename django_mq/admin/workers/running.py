"""What runs now, the most unusual first, with a button to stop it.

A Celery task that was acknowledged when it began has no message to stop: there is a page that asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_mq.acts import recorder
from django_mq.acts.command_lines import line
from django_mq.admin.actions import Action, GoneError
from django_mq.admin.addresses import message_address
from django_mq.admin.columns import breakable
from django_mq.admin.forms import Confirmation
from django_mq.admin.messages.actions import STOP
from django_mq.admin.messages.descriptions import describe, of_row
from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL, digits
from django_mq.diagnosis.messages.life import id_in
from django_mq.diagnosis.state.running import running_now
from django_mq.models import Message, WorkerSession
from django_mq.replies.panel import bar_of, progress_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.http import HttpRequest, HttpResponse

    from django_mq.acts.models import Act
    from django_mq.admin.actions import ActionAdmin
    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.running import RunningMessage

#: The most rows on the page. The JSON view has all.
SHOWN = 100
#: The parameter of the page that stops a run: the id of its message.
RUN = "run"


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show what runs. Arguments and links take the permission to view messages."""
    found = running_now(using=alias())
    may_view = admin.may(request, "view_message")
    rows = _messages(found[:SHOWN]) if may_view else {}
    reported = progress_in([row.message_id for row in rows.values()], using=alias())
    return admin.page(
        request,
        "running",
        _("Running now"),
        rows=[
            _row(admin, one, rows, may_view=may_view) | {"progress": bar_of(reported.get(one.message_id))}
            for one in found[:SHOWN]
        ],
        more=max(0, len(found) - SHOWN),
        may_view=may_view,
        may_stop=may_stop(admin, request),
        stop=STOP.name,
        stop_address=admin.list_address(Message),
        action_checkbox_name=helpers.ACTION_CHECKBOX_NAME,
        json=reverse(f"{admin.admin_site.name}:django_mq_workersession_running_json"),
    )


def may_stop(admin: TableAdmin, request: HttpRequest) -> bool:
    return admin.may(request, "view_message") and admin.may(request, STOP.permission)


def stop(admin: ActionAdmin, request: HttpRequest) -> HttpResponse:
    """Ask before a run ends whose message is gone, then have its worker end it."""
    if not may_stop(admin, request):
        raise PermissionDenied
    wanted = id_in(request.GET.get(RUN))
    here = HttpResponseRedirect(reverse(f"{admin.admin_site.name}:django_mq_workersession_running"))
    for one in running_now(using=alias()):
        if one.is_acknowledged and one.message_id == wanted:
            session = WorkerSession.objects.using(alias()).filter(pk=one.session_id)
            return admin.carry_out(_stopping(one), request, session) or here
    admin.message_user(request, _("It has ended."), messages.WARNING)
    return here


def _stopping(one: RunningMessage) -> Action:
    """Return the action that has the worker end a run whose message is gone."""
    words = {"name": one.handler, "worker": one.worker, "time": LOCAL.duration(one.seconds)}

    def run(_session: WorkerSession, _answers: Mapping[str, Any], act: Act) -> str:
        if not recorder.stop_begun(act, [one.message_id], using=alias()):
            raise GoneError(_("It has ended."))
        return _("“%(worker)s” is told to stop %(name)s.") % words

    warning = _(
        "%(name)s has been running for %(time)s. The task was acknowledged when it began: if it is stopped, it is "
        "lost, and not tried again. Its process is ended as by Celery's revoke(terminate=True), and what it has "
        "done stays. A pool of threads cannot end it: there it goes on."
    )
    return Action(
        name="stop_running",
        permission=STOP.permission,
        label=_("Stop what has begun"),
        run=run,
        counts=True,
        question=Confirmation,
        warning=warning % words,
        harmful=True,
        command=lambda _session, _answers: line("mq_cancel", "--running", names=[one.message_id]),
    )


def as_json(_admin: TableAdmin, _request: HttpRequest) -> HttpResponse:
    """Return what runs as JSON, without arguments."""
    return JsonResponse({"running": [one.as_object() for one in running_now(using=alias())]})


def _messages(found: Sequence[RunningMessage]) -> dict[int, Message]:
    """Return the messages that run, with descriptions of their contents."""
    keys = [one.row_id for one in found if not one.is_acknowledged]
    rows = Message.objects.using(alias()).filter(pk__in=keys).select_related("queue")
    held = list(rows.defer("headers", "properties", "body").order_by())
    describe(held)
    return {message.pk: message for message in held}


def _row(
    admin: TableAdmin, one: RunningMessage, found: Mapping[int, Message], *, may_view: bool
) -> dict[str, Any]:
    message = found.get(one.row_id)
    address = admin.page_address(Message, one.row_id) if message else ""
    stop_address = ""
    if one.is_acknowledged and may_view:
        address = message_address(admin, one.message_id)
        named = reverse(f"{admin.admin_site.name}:django_mq_workersession_stop_running")
        stop_address = f"{named}?{urlencode({RUN: str(one.message_id)})}"
    return {
        "one": one,
        "name": breakable(one.type or one.handler),
        "handler": breakable(one.handler) if one.type and one.handler != one.type else "",
        "worker": breakable(one.worker),
        "worker_address": admin.page_address(WorkerSession, one.session_id),
        "address": address,
        "stop_address": stop_address,
        "preview": of_row(message).preview if message else "",
        "elapsed": LOCAL.duration(one.seconds),
        "usual": LOCAL.precise(one.usual.p50) if one.usual else "-",
        "nearly_all": LOCAL.precise(one.usual.p95) if one.usual else "-",
        "times": _("%(count)s times") % {"count": digits(one.times_usual)} if one.times_usual >= 1 else "-",
    }
