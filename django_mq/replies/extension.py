"""How results and progress enter: a listening, duties, what takes reports, and parts of the message's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_mq.diagnosis.language import LOCAL
from django_mq.engine.decisions.ends import KEPT, STATUS_OF_END, SUCCEEDED
from django_mq.replies import panel
from django_mq.replies.models import MessageResult
from django_mq.replies.progress import report
from django_mq.replies.recorder import keep, prune, prune_progress
from django_mq.seams.extension import Duty, Extension, Listening, MessageEvent, Panel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

    from django.http import HttpRequest

#: How often results are deleted whose time is over.
INTERVAL_SECONDS: Final = 60.0


def events_of(_request: HttpRequest, alias: str, message_ids: Collection[UUID]) -> Iterator[MessageEvent]:
    """Yield that results of a message were kept. A panel shows their values."""
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
    duties=(
        Duty(name="prune_results", run=prune, interval_seconds=INTERVAL_SECONDS, leader_only=True),
        Duty(name="prune_progress", run=prune_progress, limit=5000, interval_seconds=600, leader_only=True),
    ),
    progress=(report,),
    panels=(
        Panel(page="message", title=_("Progress"), content=panel.show_progress),
        *(Panel(page=page, title=_("Result"), content=panel.show_result) for page in ("message", "history")),
    ),
    events=(events_of,),
)
