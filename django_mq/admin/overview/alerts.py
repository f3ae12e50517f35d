"""The alerts of the overview as sentences, each with a link to where an operator can act."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mq.admin import columns
from django_mq.admin.language import LOCAL, exact
from django_mq.diagnosis.messages.indexes import RETRYING
from django_mq.diagnosis.state.alerts import OWN, AlertKind, Factor, delivery
from django_mq.diagnosis.state.overview import COUNT_LIMIT
from django_mq.diagnosis.state.unwanted import MOST_READ
from django_mq.engine.decisions.limits import Overflow
from django_mq.models import Attempt, Consumer, Message, Queue, WorkerSession
from django_mq.seams.findings import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django.db.models import Model
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.alerts import Alert
    from django_mq.diagnosis.state.extensions import Found
    from django_mq.diagnosis.state.overview import QueueState

#: The most sentences on the page.
SHOWN = 12
#: So many of each kind come first: thirty late queues must not hide that another is full.
SHOWN_OF_A_KIND = 3
#: The most names of workers in a sentence.
NAMED = 3

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
    AlertKind.PAUSED: (gettext_lazy("paused"), gettext_lazy("Resume it"), Queue),
}


def as_object(alert: Alert) -> dict[str, Any]:
    """Return an alert for the JSON view."""
    return {
        "kind": alert.kind.value,
        "urgent": alert.urgent,
        "queue": alert.queue.name if alert.queue else None,
        "sentence": sentence(alert),
    }


def for_page(alert: Alert, admin: TableAdmin, request: HttpRequest) -> dict[str, Any]:
    """Return an alert for the template. ``address`` is empty if the user may not go there."""
    label, link, model = KINDS[alert.kind]
    if alert.kind is AlertKind.LATE and alert.factor in OWN:
        _, link, model = KINDS[AlertKind.FULL]
    queue_address = admin.page_address(Queue, alert.queue.id) if alert.queue else ""
    address = queue_address
    if model is not Queue:
        may = admin.may(request, f"view_{model._meta.model_name}")
        address = admin.list_address(model, **_filters(alert)) if may else ""
    return as_object(alert) | {"label": label, "queue_address": queue_address, "link": link, "address": address}


def found_objects(found: Iterable[Found]) -> list[dict[str, Any]]:
    """Return what extensions have found, except what is well, for the JSON view and the template."""
    return [
        {
            "kind": "extension",
            "urgent": finding.level is Level.PROBLEM,
            "queue": None,
            "sentence": f"{finding.sentence} {finding.mend}".rstrip(),
            "label": finding.about,
        }
        for _name, finding in found
        if finding.level is not Level.OK
    ]


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
            until = columns.time_text(state.paused_until)
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


def shown(found: Sequence[Alert]) -> list[Alert]:
    """Return the alerts that the page has room for, in the order given."""
    counted: Counter[AlertKind] = Counter()
    early: list[int] = []
    late: list[int] = []
    for number, one in enumerate(found):
        counted[one.kind] += 1
        (early if counted[one.kind] <= SHOWN_OF_A_KIND else late).append(number)
    return [found[number] for number in sorted((early + late)[:SHOWN])]


def sentence(alert: Alert) -> str:
    """Return the alert in a sentence or two."""
    return SENTENCES[alert.kind](alert, alert.queue) if alert.queue else _stale(alert.workers)


def _why_late(alert: Alert, state: QueueState) -> str:
    most = state.max_receivers or 0
    words: dict[Factor, str] = {
        Factor.QUEUE: _(
            "As many of its messages are in flight as the queue allows over all workers (%(most)s): "
            "more workers do not help. Raise its limit, or make the handlers faster."
        )
        % {"most": exact(state.most_claimed)},
        Factor.RECEIVERS: ngettext(
            "The queue lets %(count)s worker receive at a time: more workers do not help.",
            "The queue lets %(count)s workers receive at a time: more workers do not help.",
            most,
        )
        % {"count": exact(most)},
        Factor.SLOTS: _("Its workers are busy: there are too few, or they are slow."),
        Factor.CREDIT: _(
            "Its workers have idle slots, and as many messages in flight as they may: raise their max."
        ),
        Factor.GROUPS: _(
            "Messages of a group are delivered one at a time: see the groups on the page of the queue."
        ),
        Factor.ORDER: _(
            "The queue keeps a strict order: a message that cannot be delivered holds up those behind it."
        ),
        Factor.UNKNOWN: _("Its workers could have more messages in flight: see what its consumers wait for."),
    }
    return words[alert.factor]


def _unwanted(alert: Alert, state: QueueState) -> str:
    words = ngettext(
        "The selector of no consumer matches %(count)s message at its head.",
        "The selector of no consumer matches %(count)s messages at its head.",
        alert.unwanted,
    )
    return f"{_waiting(state)} {words % {'count': LOCAL.least(alert.unwanted, MOST_READ)}}"


def _waiting(state: QueueState) -> str:
    age = LOCAL.age(state.oldest_ready_seconds or 0.0, is_exact=state.is_oldest_exact)
    if not state.ready:
        return _("A scheduled message has been due for %(age)s.") % {"age": age}
    words = ngettext(
        "%(count)s message has been ready for %(age)s.",
        "%(count)s messages are ready, the oldest for %(age)s.",
        state.ready,
    )
    return words % {"count": LOCAL.least(state.ready), "age": age}


def _failing(alert: Alert, _state: QueueState) -> str:
    rates = {"failed": columns.rate(alert.failed), "finished": columns.rate(alert.accepted)}
    return _("More attempts fail (%(failed)s/s) than messages are finished (%(finished)s/s).") % rates


def _dead(_alert: Alert, state: QueueState) -> str:
    number = state.new_dead_letters
    words = ngettext("%(count)s dead letter waits for you.", "%(count)s dead letters wait for you.", number)
    limit = COUNT_LIMIT if max(state.dead, state.dead_letters_of_others) >= COUNT_LIMIT else number + 1
    return words % {"count": LOCAL.least(number, limit)}


def _retrying(_alert: Alert, state: QueueState) -> str:
    words = ngettext(
        "%(count)s message failed and waits for its next attempt.",
        "%(count)s messages failed and wait for their next attempt.",
        state.retrying,
    )
    limit = state.retrying if state.is_retrying_cut else COUNT_LIMIT
    return words % {"count": LOCAL.least(state.retrying, limit)}


def _full(_alert: Alert, state: QueueState) -> str:
    words = {
        Overflow.DROP: _("It is full (limit: %(most)s) and drops new messages."),
        Overflow.FLOW: _("It is full (limit: %(most)s) and lets publishers wait."),
    }
    refuses = _("It is full (limit: %(most)s) and refuses new messages.")
    return words.get(Overflow(state.overflow), refuses) % {"most": exact(state.max_messages or 0)}


def _paused(_alert: Alert, state: QueueState) -> str:
    parts = []
    if state.paused_reason:
        parts.append(_("The reason: %(reason)s.") % {"reason": state.paused_reason.rstrip(".")})
    if state.paused_until:
        parts.append(
            _("It resumes by itself at %(time)s.") % {"time": columns.time_text(state.paused_until).rstrip(".")}
        )
    else:
        parts.append(_("It stays paused until an operator resumes it."))
    if state.ready:
        parts.append(_waiting(state))
    return " ".join(parts)


def _stale(names: Sequence[str]) -> str:
    named = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
    words = ngettext(
        "%(count)s worker has stopped its heartbeat: %(names)s.",
        "%(count)s workers have stopped their heartbeat: %(names)s.",
        len(names),
    )
    return words % {"count": exact(len(names)), "names": named}


SENTENCES: dict[AlertKind, Callable[[Alert, QueueState], str]] = {
    AlertKind.UNSERVED: lambda _alert, state: f"{_waiting(state)} {_('No worker takes from it.')}",
    AlertKind.QUIET: lambda _alert, state: (
        f"{_waiting(state)} {_('All its workers have been told to take no new work, or to stop.')}"
    ),
    AlertKind.UNWANTED: _unwanted,
    AlertKind.LATE: lambda alert, state: f"{_waiting(state)} {_why_late(alert, state)}",
    AlertKind.FULL: _full,
    AlertKind.FAILING: _failing,
    AlertKind.DEAD: _dead,
    AlertKind.RETRYING: _retrying,
    AlertKind.PAUSED: _paused,
}
