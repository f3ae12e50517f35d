"""Unique messages as an extension of django_mq, which ``django_mq.apps`` adds.

Keys need no freeing: a publisher looks how the message stands that has the key. The duty deletes their rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_mq.diagnosis.language import LOCAL
from django_mq.engine.decisions.ends import End
from django_mq.engine.decisions.unique import RUNS
from django_mq.formats import PLAIN
from django_mq.seams.extension import Duty, Extension, Listening, MessageEvent, Panel
from django_mq.seams.findings import notice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

    from django.http import HttpRequest

    from django_mq.seams.findings import Finding

#: How often the rows of keys are deleted that no message has.
INTERVAL_SECONDS = 60.0
#: The most keys that are named.
MOST_NAMED = 3


def prune(store: Any, limit: int) -> int:
    """Delete the keys that no message has; return how many."""
    pruned: int = store.unique_keys.prune(limit)
    return pruned


def show(_request: HttpRequest, message: Any) -> str:
    """Return which unique keys a message has, as text."""
    from django_mq.models import UniqueKey  # noqa: PLC0415 - the extension is added while models are loaded

    keys = UniqueKey.objects.using(message._state.db).filter(message_id=message.message_id)  # noqa: SLF001 - Django's public habit
    return "\n".join(_sentence(key) for key in keys)


def events_of(_request: HttpRequest, alias: str, message_ids: Collection[UUID]) -> Iterator[MessageEvent]:
    """Yield which unique keys a message has taken."""
    from django_mq.models import UniqueKey  # noqa: PLC0415 - as above

    for key in UniqueKey.objects.using(alias).filter(message_id__in=message_ids):
        words = gettext("took the unique key “%(key)s”") % {"key": key.label or gettext("its arguments")}
        yield MessageEvent(time=key.first_at, words=words)


def _sentence(key: Any) -> str:
    name = key.label or gettext("its arguments")
    if key.until == "window":
        return gettext("%(key)s, until %(time)s") % {"key": name, "time": LOCAL.time(key.ends_at)}
    words = {"begins": gettext("%(key)s, until it begins"), "finished": gettext("%(key)s, until it is finished")}
    return words.get(key.until, "%(key)s") % {"key": name}


def find(alias: str) -> Iterator[Finding]:
    """Yield what is wrong with unique keys: nothing that is published with them gets through."""
    from django_mq.diagnosis.state.unique_keys import long_held  # noqa: PLC0415 - as above

    for key in long_held(using=alias)[:MOST_NAMED]:
        name = key.label or str(key.message_id)
        since = PLAIN.time(key.first_at)
        yield notice(
            f"unique key {name}",
            f"Message {key.message_id} has held it since {since}: it neither finishes nor waits for a time.",
            f'Look at the message, or run manage.py mq_unique "{key.label or key.owner}" --free.',
        )


#: Celery's messages name it themselves: no publish asks.
LISTENING = Listening(name=RUNS, ends=frozenset({End.ACCEPTED}), wants=None, tell=lambda _store, _ended: None)
EXTENSION = Extension(
    name="unique",
    ends=(LISTENING,),
    findings=(find,),
    duties=(Duty(name="prune_keys", run=prune, interval_seconds=INTERVAL_SECONDS, leader_only=True),),
    events=(events_of,),
    panels=(Panel(page="message", title=_("Unique key"), content=show),),
)
