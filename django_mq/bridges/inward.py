"""What the doctor, the alerts and the metrics say of receivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.translation import gettext as _

from django_mq.bridges.receiver_state import ReceiverState
from django_mq.bridges.receiving import receivers_on
from django_mq.engine.decisions.receivers import Carrier, ReceiverCondition, shown_condition
from django_mq.errors import ConfigurationError
from django_mq.models.times import UTCNow
from django_mq.seams.findings import ok, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.decisions.receivers import Receiver
    from django_mq.seams.findings import Finding


class ReceiverLook(NamedTuple):
    """A receiver of the settings, with its row and what it does. A receiver that has never run has no row."""

    receiver: Receiver
    row: ReceiverState | None
    condition: ReceiverCondition
    is_problem: bool


def looks(alias: str) -> list[ReceiverLook]:
    """Return what the receivers of a database do, in one statement; none without a statement if there are none."""
    try:
        declared = receivers_on(alias)
    except ConfigurationError:
        return []  # the checks say it
    if not declared:
        return []
    states: Any = ReceiverState.objects.using(alias).annotate(now=UTCNow())
    rows: Any = states.in_bulk([each.name for each in declared], field_name="name")
    found = []
    for receiver in declared:
        row = rows.get(receiver.name)
        is_held = row is not None and row.held_until is not None and row.held_until > row.now
        condition = None if row is None else ReceiverCondition(row.state)
        shown = shown_condition(condition, is_held=is_held, carrier=Carrier(receiver.workers))
        found.append(ReceiverLook(receiver, row, shown.condition, shown.is_problem))
    return found


def find(alias: str) -> Iterator[Finding]:
    """Say of each receiver whether it receives."""
    for receiver, row, condition, is_problem in looks(alias):
        about = f"receiver {receiver.name}"
        if not is_problem:
            yield ok(
                about,
                _("It receives.") if condition is ReceiverCondition.RECEIVES else _("No worker is to run it."),
            )
        elif condition is ReceiverCondition.STOPPED:
            mend = _("Start a worker that runs it, or manage.py mq_receive %(name)s.") % {"name": receiver.name}
            yield problem(about, _("No process receives."), mend)
        else:
            words = "" if row is None else row.problem
            if condition is ReceiverCondition.AWAY:
                sentence = _("The other broker cannot be used: %(why)s") % {"why": words}
                yield problem(about, sentence, _("Nothing is lost: the receiver tries again by itself."))
            else:
                sentence = _("What comes cannot be written: %(why)s") % {"why": words}
                yield problem(about, sentence, _("The broker keeps it until that is mended."))
