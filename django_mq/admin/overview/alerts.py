"""The alerts of the overview as sentences, each with a link to where an operator can act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin.addresses import message_address
from django_mq.admin.queues.actions import REDRIVE, RESUME
from django_mq.diagnosis.language import time_text
from django_mq.diagnosis.messages.indexes import RETRYING
from django_mq.diagnosis.state.alerts import AlertKind, delivery
from django_mq.diagnosis.state.sentences import sentence
from django_mq.engine.decisions.limiting_factor import OWN
from django_mq.models import Attempt, Consumer, Message, Queue, WorkerSession
from django_mq.seams.findings import Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django.db.models import Model
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

    from django_mq.admin.actions import Action
    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.alerts import Alert
    from django_mq.diagnosis.state.extensions import Found
    from django_mq.diagnosis.state.overview import QueueState

#: The label of each kind, its link, and the model to which the link leads.
KINDS: dict[AlertKind, tuple[StrOrPromise, StrOrPromise, type[Model]]] = {
    AlertKind.UNSERVED: (gettext_lazy("no worker"), gettext_lazy("Workers"), WorkerSession),
    AlertKind.QUIET: (gettext_lazy("quiet workers"), gettext_lazy("Workers"), WorkerSession),
    AlertKind.UNWANTED: (gettext_lazy("not wanted"), gettext_lazy("Its consumers"), Consumer),
    AlertKind.LATE: (gettext_lazy("late"), gettext_lazy("Its consumers"), Consumer),
    AlertKind.FULL: (gettext_lazy("full"), gettext_lazy("Its limits"), Queue),
    AlertKind.FAILING: (gettext_lazy("failing"), gettext_lazy("Failed attempts"), Attempt),
    AlertKind.STALE: (gettext_lazy("stale"), gettext_lazy("Stale workers"), WorkerSession),
    AlertKind.DEAD: (gettext_lazy("dead letters"), gettext_lazy("Look at them"), Message),
    AlertKind.RETRYING: (gettext_lazy("retrying"), gettext_lazy("Look at them"), Message),
    AlertKind.PAUSED: (gettext_lazy("paused"), gettext_lazy("Look at it"), Queue),
}


def as_object(alert: Alert) -> dict[str, Any]:
    """Return an alert for the JSON view."""
    return {
        "kind": alert.kind.value,
        "urgent": alert.urgent,
        "queue": alert.queue.name if alert.queue else None,
        "sentence": sentence(alert),
    }


#: What resolves an alert of a kind at once.
RESOLVING: Mapping[AlertKind, Action] = {AlertKind.DEAD: REDRIVE, AlertKind.PAUSED: RESUME}


def for_page(alert: Alert, admin: TableAdmin, request: HttpRequest) -> dict[str, Any]:
    """Return an alert for the template: with a button that resolves it, or with the address where to do that.

    Both are missing if the user may do neither.
    """
    label, link, model = KINDS[alert.kind]
    if alert.kind is AlertKind.LATE and alert.factor in OWN:
        _, link, model = KINDS[AlertKind.FULL]
    queue_address = admin.page_address(Queue, alert.queue.id) if alert.queue else ""
    address = queue_address
    if model is not Queue:
        may = admin.may(request, f"view_{model._meta.model_name}")
        address = admin.list_address(model, **_filters(alert)) if may else ""
    action = RESOLVING.get(alert.kind)
    button = (action.name, action.label) if action and admin.may(request, action.permission) else None
    return as_object(alert) | {
        "label": label,
        "queue_address": queue_address,
        "queue_id": alert.queue and alert.queue.id,
        "button": button,
        "link": link,
        "address": address,
    }


def found_objects(found: Iterable[Found]) -> list[dict[str, Any]]:
    """Return what extensions have found, except what is well, for the JSON view and the template."""
    return [
        {
            "kind": "extension",
            "urgent": finding.level is Level.PROBLEM,
            "queue": None,
            "sentence": f"{finding.sentence} {finding.mend}".rstrip(),
            "label": finding.about,
            "message_id": finding.message_id,
        }
        for _name, finding in found
        if finding.level is not Level.OK
    ]


def with_message(alert: dict[str, Any], admin: TableAdmin, request: HttpRequest) -> dict[str, Any]:
    """Return what an extension has found with the address of its message, if the user may see it."""
    if not admin.may(request, "view_message"):
        return alert
    return alert | {"address": message_address(admin, alert["message_id"]), "link": _("Look at it")}


def worst_first(alerts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(alerts, key=lambda alert: not alert["urgent"])


def delivery_column(state: QueueState, awake: int, unwanted: int, *, short: bool = False) -> str:
    """Return what the queue does with messages in the words of the alerts; if ``short``, the rest is on hover."""
    kind = delivery(state, awake, unwanted)
    if kind is None:
        if state.rests and state.ready:
            label = KINDS[AlertKind.DEAD][0]
            return format_html('<span class="mq-bad">{}</span>', label) if state.new_dead_letters else str(label)
        return _("closed to new messages") if state.closed else _("running")
    words = str(KINDS[kind][0])
    if kind is AlertKind.PAUSED:
        words = f"{words}: {state.paused_reason}" if state.paused_reason else words
        if state.paused_until:
            until = time_text(state.paused_until)
            words = _("%(paused)s (until %(until)s)") % {"paused": words, "until": until}
    if kind is AlertKind.LATE:
        return format_html('<span class="mq-bad">{}</span>', words)
    shown = KINDS[kind][0] if short else words
    return format_html('<span class="mq-warn mq-clip" title="{}">{}</span>', words, shown)


def _filters(alert: Alert) -> dict[str, str]:
    if alert.queue is None:
        return {"status": "stale"}
    if alert.kind in {AlertKind.UNSERVED, AlertKind.QUIET}:
        return {}
    if alert.kind is AlertKind.RETRYING:
        return {"queue": alert.queue.name, "state": RETRYING}
    in_place = alert.kind is AlertKind.DEAD and not alert.queue.rests
    return {"queue": alert.queue.name} | ({"state": str(Message.Status.DEAD.value)} if in_place else {})
