"""What happened that may explain a change or an alert: deploys, and what operators did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.db.models import Q
from django.utils.translation import gettext as _

from django_mq.acts.models import Act
from django_mq.admin.overview.charts import Mark
from django_mq.admin.table import alias
from django_mq.engine.decisions.alerts import SHORTLY, is_shortly_before
from django_mq.models import Deploy

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

#: The most acts that are read, the newest ones.
NEWEST: Final = 500
#: The most characters of a label.
LONGEST: Final = 120
#: The most changes that an alert names.
NAMED: Final = 2
#: Acts that change nothing of what runs.
HARMLESS: Final = ("download", "acknowledge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A deploy, or what an operator did."""

    time: datetime
    label: str
    #: The queues that it concerns; None: all.
    queues: frozenset[str] | None = None
    #: The act and its user; None and blank: it was a deploy.
    act: int | None = None
    user_name: str = ""


def changes(spans: Collection[tuple[datetime, datetime]], *, acts: bool) -> list[Change]:
    """Return what happened within any of these spans, the newest first; without ``acts`` only deploys."""
    if not spans:
        return []
    deploys = Deploy.objects.using(alias()).filter(_within(spans, "first_at"))[:NEWEST]
    found = [
        Change(time=each.first_at, label=_("deploy: %(version)s") % {"version": each.version}) for each in deploys
    ]
    if acts:
        done = Act.objects.using(alias()).filter(_within(spans, "began_at")).exclude(name__in=HARMLESS)
        found += [_of(act) for act in done.order_by("-began_at", "-pk")[:NEWEST]]
    return sorted(found, key=lambda change: change.time, reverse=True)


def _within(spans: Collection[tuple[datetime, datetime]], field: str) -> Q:
    wanted = Q()
    for since, until in spans:
        wanted |= Q(**{f"{field}__gte": since, f"{field}__lt": until})
    return wanted


def _of(act: Act) -> Change:
    label = f"{act.about}: {act.said}" if act.about else act.said
    return Change(
        time=act.began_at, label=label[:LONGEST], queues=_queues(act), act=act.pk, user_name=act.user_name
    )


def _queues(act: Act) -> frozenset[str] | None:
    """Return the queues that an act concerns; None if it may concern any."""
    if act.model == "queue" and act.about:
        return frozenset({act.about})
    filters, target = act.criterion.get("filters") or {}, act.answers.get("target")
    named = {filters["queue"]} if filters.get("queue") else set()
    return frozenset({*named, *([target] if target else [])}) or None


def shortly_before(since: datetime, queue: str, found: Collection[Change]) -> list[Change]:
    """Return what may have caused an alert of a queue, or of none, that began then: the newest changes."""
    near = [change for change in found if is_shortly_before(change.time, since)]
    return [change for change in near if not queue or change.queues is None or queue in change.queues][:NAMED]


def before(since: datetime) -> tuple[datetime, datetime]:
    """Return the span in which a change may have caused what began then."""
    return since - SHORTLY, since


def marks(since: datetime, until: datetime, *, queue: str | None = None, acts: bool) -> list[Mark]:
    """Return what happened within a span to a queue, or to any."""
    return [
        Mark(change.time, change.label, "act" if change.act else "deploy")
        for change in changes([(since, until)], acts=acts)
        if queue is None or change.queues is None or queue in change.queues
    ]
