"""What limits a queue now, in a sentence in the language of the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mq.diagnosis.language import LOCAL, time_text
from django_mq.diagnosis.state.alerts import STOPPED, Alert
from django_mq.diagnosis.state.sentences import sentence, waiting_sentence
from django_mq.engine.decisions.limiting_factor import Factor

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.diagnosis.state.limiting import LimitNow


def limit_sentence(now: LimitNow, *, names_keys: bool = True) -> str:
    """Return what limits the delivery of a queue; names of keys only if the reader may view messages."""
    if now.factor in STOPPED:
        said = sentence(Alert(kind=STOPPED[now.factor], queue=now.state, unwanted=now.unwanted))
        return f"{_('The queue is paused.')} {said}" if now.factor is Factor.PAUSED else said
    if now.factor is Factor.EMPTY:
        return _empty(now)
    words = _keys(now, names_keys=names_keys) if now.factor is Factor.KEYS else WORDS[now.factor](now)
    return f"{words} {waiting_sentence(now.state)}" if now.state.oldest_ready_seconds is not None else words


def _empty(now: LimitNow) -> str:
    if now.state.ready:
        return _("Nothing waits for a worker: what is here are dead letters, or it goes on when it expires.")
    return _("Nothing waits for a worker.")


def _keys(now: LimitNow, *, names_keys: bool) -> str:
    key, fill = now.key, now.fill
    if key is None or not names_keys:
        words = ngettext(
            "Limited by a limit by key: %(count)s message waits for its key.",
            "Limited by a limit by key: %(count)s messages wait for their keys.",
            now.state.parked,
        )
        return words % {"count": LOCAL.least(now.state.parked)}
    given = {
        "limit": key.limit,
        "key": key.key or _("the whole queue"),
        "parked": LOCAL.least(key.parked),
        "used": LOCAL.digits(fill.used) if fill else "",
        "of": LOCAL.digits(fill.of) if fill and fill.of is not None else "",
    }
    if fill and fill.runs and fill.of is not None:
        words = _("Limited by the limit “%(limit)s”: %(used)s of %(of)s of the key %(key)s run, %(parked)s wait.")
    elif fill and fill.runs:
        words = _("Limited by the limit “%(limit)s”: %(used)s of the key %(key)s run, %(parked)s wait.")
    elif key.next_at is not None:
        given["time"] = time_text(key.next_at)
        words = _("Limited by the rate “%(limit)s”: %(parked)s of the key %(key)s wait, the next until %(time)s.")
    else:
        words = _("Limited by the limit “%(limit)s”: %(parked)s of the key %(key)s wait.")
    return words % given


def _queue(now: LimitNow) -> str:
    given = {"used": LOCAL.number(now.state.claimed), "of": LOCAL.number(now.state.most_claimed)}
    return _("Limited by the most in flight of the queue: %(used)s of %(of)s, over all workers.") % given


def _receivers(now: LimitNow) -> str:
    most = now.state.max_receivers or 0
    words = ngettext(
        "Limited by the most consumers of the queue: %(used)s of %(count)s worker receives.",
        "Limited by the most consumers of the queue: %(used)s of %(count)s workers receive.",
        most,
    )
    return words % {"used": LOCAL.number(min(most, now.state.consumers)), "count": LOCAL.number(most)}


def _slots(now: LimitNow) -> str:
    slots, credit = now.supply.slots, now.supply.credit
    if not slots.of:
        return _("Limited by its workers: they hold %(used)s of %(of)s messages.") % {
            "used": LOCAL.number(credit.used),
            "of": LOCAL.number(credit.of),
        }
    given = {"used": LOCAL.number(slots.used), "of": LOCAL.number(slots.of)}
    return _("Limited by the slots of its workers: %(used)s of %(of)s are busy.") % given


def _credit(now: LimitNow) -> str:
    slots, credit = now.supply.slots, now.supply.credit
    given = {"used": credit.used, "of": credit.of, "idle": max(0, slots.of - slots.used)}
    words = _("Limited by the max in flight of its consumers: %(used)s of %(of)s, while %(idle)s slots are idle.")
    return words % {name: LOCAL.number(value) for name, value in given.items()}


WORDS: dict[Factor, Callable[[LimitNow], str]] = {
    Factor.QUEUE: _queue,
    Factor.RECEIVERS: _receivers,
    Factor.SLOTS: _slots,
    Factor.CREDIT: _credit,
    Factor.GROUPS: lambda _now: _("Limited by its groups: of each group, one message is delivered at a time."),
    Factor.ORDER: lambda _now: _(
        "Limited by its strict order: a message that cannot be delivered holds up those behind it."
    ),
    Factor.NOTHING: lambda _now: _("Nothing limits it: its workers could have more messages."),
}
