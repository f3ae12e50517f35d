"""How acts enter: a duty that deletes old ones, the settings, and the events of a message."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext as _

from django_mq import conf
from django_mq.acts.models import Act, ActedMessage
from django_mq.engine.options import Option
from django_mq.models.deletion import delete_first
from django_mq.models.times import UTCNow
from django_mq.seams.extension import Duty, Extension, MessageEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from uuid import UUID

    from django.http import HttpRequest

    from django_mq.stores.base import Store

REASON_ABOVE: Final = Option(
    name="ACTS_REASON_ABOVE",
    type="int | None",
    default=1000,
    least=0,
    help="Ask for a reason when an operator changes more messages than this at once. None: never.",
)
DAYS: Final = Option(
    name="ACTS_DAYS",
    type="int",
    default=90,
    least=1,
    most=3650,
    help="How many days to keep what operators did.",
)
#: Acts of one message that its timeline shows, the newest ones.
SHOWN: Final = 50


def reason_above() -> int | None:
    """Return the number of messages above which an operator has to say why."""
    above: int | None = REASON_ABOVE.value_in(conf.load())
    return above


def asks_reason(count_up_to: Callable[[int], int]) -> bool:
    """Return whether to ask why so many messages are changed; the function counts them, up to a number."""
    above = reason_above()
    return above is not None and count_up_to(above + 1) > above


def prune(store: Store, limit: int) -> int:
    """Delete the oldest acts that are kept long enough, and their messages, at most ``limit``; return how many."""
    if not store.features.durable:
        return 0
    kept = timedelta(days=DAYS.value_in(conf.load()))
    acts = Act.objects.using(store.alias)
    old = acts.filter(began_at__lt=UTCNow() - kept).order_by("began_at", "pk")
    oldest = list(old.values_list("pk", flat=True)[:limit])
    messages = ActedMessage.objects.using(store.alias)
    deleted = delete_first(messages.filter(act__in=oldest).order_by("pk"), limit)
    emptied = list(acts.filter(pk__in=oldest, messages=None).values_list("pk", flat=True))
    acts.filter(pk__in=emptied).delete()
    return deleted + len(emptied)


def events(request: HttpRequest, alias: str, message_ids: Collection[UUID]) -> Iterator[MessageEvent]:
    """Yield what operators did to a message, if the user may view acts."""
    if not request.user.has_perm("django_mq.view_act"):
        return
    rows = ActedMessage.objects.using(alias).filter(message_id__in=message_ids).select_related("act")
    for each in rows.order_by("-pk")[:SHOWN]:
        act = each.act
        words = _("%(user)s: %(what)s") % {"user": act.user_name, "what": act.said}
        if act.reason:
            words = f"{words} {_('Reason: %(reason)s') % {'reason': act.reason}}"
        yield MessageEvent(time=act.began_at, words=words)


EXTENSION: Final = Extension(
    name="acts",
    duties=(Duty(name="prune", run=prune, interval_seconds=300, leader_only=True),),
    settings=(REASON_ABOVE, DAYS),
    events=(events,),
)
