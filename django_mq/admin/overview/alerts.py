"""What needs a look, as sentences at the top of the overview, each with a way to what mends it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mq.admin import columns
from django_mq.diagnosis.state.alerts import Kind
from django_mq.engine.overflow import Overflow
from django_mq.models import Attempt, Consumer, Message, Queue, WorkerSession

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.db.models import Model
    from django.http import HttpRequest

    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.alerts import Alert
    from django_mq.diagnosis.state.overview import QueueState

#: Sentences on the page; of the others there is a count, and the table says it.
SHOWN = 12
#: Of each kind so many come first: thirty late queues must not hide that another is full.
SHOWN_OF_A_KIND = 3
#: Names of workers in a sentence.
NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An alert in words. Without permission to go there, ``address`` is empty."""

    kind: str
    urgent: bool
    label: str
    queue: str
    queue_address: str
    sentence: str
    link: str
    address: str


def as_object(alert: Alert) -> dict[str, object]:
    """Return an alert for the JSON view of the page."""
    queue = alert.queue.name if alert.queue else None
    words = sentence(alert)
    return {"kind": alert.kind.value, "urgent": alert.urgent, "queue": queue, "sentence": words}


def told(alert: Alert, admin: TableAdmin, request: HttpRequest) -> Told:
    """Put an alert into words for one user."""

    def listed(model: type[Model], **filters: str) -> str:
        may = admin.may(request, f"view_{model._meta.model_name}")
        return admin.list_address(model, **filters) if may else ""

    state = alert.queue
    page = admin.page_address(Queue, state.id) if state else ""
    link, address = _mend(alert, page, listed)
    return Told(
        kind=alert.kind.value,
        urgent=alert.urgent,
        label=label(alert.kind),
        queue=state.name if state else "",
        queue_address=page,
        sentence=sentence(alert),
        link=link,
        address=address,
    )


def _mend(alert: Alert, page: str, listed: Callable[..., str]) -> tuple[str, str]:
    """Return where it is mended, in words and as an address."""
    kind, state = alert.kind, alert.queue
    if kind is Kind.STALE:
        return _("Stale workers"), listed(WorkerSession, status="stale")
    if state is None or kind in {Kind.PAUSED, Kind.FULL}:
        return _("Resume it") if kind is Kind.PAUSED else _("Its limits"), page
    if kind is Kind.LATE:
        return _("Its consumers"), listed(Consumer, queue=state.name)
    if kind is Kind.FAILING:
        return _("Failed attempts"), listed(Attempt, queue=state.name)
    if kind is Kind.DEAD:
        filters = {} if state.rests else {"state": str(Message.Status.DEAD.value)}
        return _("Look at them"), listed(Message, queue=state.name, **filters)
    return _("Workers"), listed(WorkerSession)


def shown(found: Sequence[Alert]) -> list[Alert]:
    """Return those that the page has room for, in the order given."""
    counted: Counter[Kind] = Counter()
    early: list[int] = []
    late: list[int] = []
    for number, one in enumerate(found):
        counted[one.kind] += 1
        (early if counted[one.kind] <= SHOWN_OF_A_KIND else late).append(number)
    return [found[number] for number in sorted((early + late)[:SHOWN])]


def label(kind: Kind) -> str:
    """Return the alert in a word or two."""
    return {
        Kind.UNSERVED: _("no worker"),
        Kind.QUIET: _("quiet workers"),
        Kind.LATE: _("late"),
        Kind.FULL: _("full"),
        Kind.FAILING: _("failing"),
        Kind.STALE: _("stale"),
        Kind.DEAD: _("dead letters"),
        Kind.PAUSED: _("paused"),
    }[kind]


def sentence(alert: Alert) -> str:
    """Return what is the matter, in a sentence or two."""
    state = alert.queue
    return _stale(alert.workers) if state is None else OF_QUEUES[alert.kind](alert, state)


def _unserved(_alert: Alert, state: QueueState) -> str:
    return f"{_waiting(state)} {_('No worker takes from it.')}"


def _quiet(_alert: Alert, state: QueueState) -> str:
    return f"{_waiting(state)} {_('All its workers have been told to be quiet or to stop.')}"


def _late(alert: Alert, state: QueueState) -> str:
    if alert.busy:
        why = _("Its workers are busy: there are too few, or they are slow.")
    elif alert.spent:
        why = _("Its workers have idle slots and no credit left: give them more.")
    else:
        why = _("Its workers have credit left: see what its consumers wait for.")
    return f"{_waiting(state)} {why}"


def _failing(alert: Alert, _state: QueueState) -> str:
    rates = {"failed": _rate(alert.failed), "finished": _rate(alert.accepted)}
    return _("More attempts fail (%(failed)s/s) than messages are finished (%(finished)s/s).") % rates


def _waiting(state: QueueState) -> str:
    age = columns.duration(state.oldest_ready_seconds or 0.0)
    if not state.ready:
        return _("A scheduled message has been due for %(age)s.") % {"age": age}
    words = ngettext(
        "%(count)s message has been ready for %(age)s.",
        "%(count)s messages are ready, the oldest for %(age)s.",
        state.ready,
    )
    return words % {"count": columns.shown(state.ready), "age": age}


def _full(_alert: Alert, state: QueueState) -> str:
    words = {
        Overflow.DROP: _("It is full (limit: %(most)s) and drops new messages."),
        Overflow.FLOW: _("It is full (limit: %(most)s) and lets publishers wait."),
    }
    refuses = _("It is full (limit: %(most)s) and refuses new messages.")
    most = number_format(state.max_messages or 0, use_l10n=True, force_grouping=True)
    return words.get(Overflow(state.overflow), refuses) % {"most": most}


def _dead(_alert: Alert, state: QueueState) -> str:
    number = state.dead_letters
    words = ngettext("%(count)s dead letter waits for you.", "%(count)s dead letters wait for you.", number)
    return words % {"count": columns.shown(number)}


def _paused(_alert: Alert, state: QueueState) -> str:
    parts = []
    if state.paused_reason:
        parts.append(_("The reason: %(reason)s.") % {"reason": state.paused_reason.rstrip(".")})
    if state.paused_until:
        parts.append(_("It resumes by itself at %(time)s.") % {"time": columns.time_text(state.paused_until)})
    else:
        parts.append(_("It stays paused until an operator resumes it."))
    if state.ready:
        parts.append(_waiting(state))
    return " ".join(parts)


def _stale(names: Sequence[str]) -> str:
    named = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
    words = ngettext(
        "%(count)d worker has stopped its heartbeat: %(names)s.",
        "%(count)d workers have stopped their heartbeat: %(names)s.",
        len(names),
    )
    return words % {"count": len(names), "names": named}


def _rate(value: float) -> str:
    return number_format(value, decimal_pos=2, use_l10n=True)


OF_QUEUES: dict[Kind, Callable[[Alert, QueueState], str]] = {
    Kind.UNSERVED: _unserved,
    Kind.QUIET: _quiet,
    Kind.LATE: _late,
    Kind.FULL: _full,
    Kind.FAILING: _failing,
    Kind.DEAD: _dead,
    Kind.PAUSED: _paused,
}
