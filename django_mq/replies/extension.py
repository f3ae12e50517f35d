"""How kept results enter: a listening, a duty, and a line in the timeline of the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext

from django_mq.diagnosis.language import LOCAL
from django_mq.engine.decisions.ends import KEPT, STATUS_OF_END, SUCCEEDED
from django_mq.replies.models import MessageResult
from django_mq.replies.recorder import keep, prune
from django_mq.seams.extension import Duty, Extension, Listening, MessageEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

    from django.http import HttpRequest

#: How often results are deleted whose time is over.
INTERVAL_SECONDS: Final = 60.0


def events_of(_request: HttpRequest, alias: str, message_ids: Collection[UUID]) -> Iterator[MessageEvent]:
    """Yield that results of a message were kept. Their values are not shown: MASK does not know them."""
    for row in MessageResult.objects.using(alias).filter(pk__in=list(message_ids)):
        given = {"size": LOCAL.size(len(row.value or "")), "time": LOCAL.time(row.expires_at)}
        yield MessageEvent(
            time=row.finished_at,
            words=gettext("its result of %(size)s is kept until %(time)s") % given,
            bad=row.status != SUCCEEDED,
            queue=row.queue_name,
        )


#: The publisher marks the messages itself: no other message is asked.
LISTENING: Final = Listening(name=KEPT, ends=frozenset(STATUS_OF_END), wants=None, tell=keep, returns=True)
EXTENSION: Final = Extension(
    name="replies",
    ends=(LISTENING,),
    duties=(Duty(name="prune_results", run=prune, interval_seconds=INTERVAL_SECONDS, leader_only=True),),
    events=(events_of,),
)
