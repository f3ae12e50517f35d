"""What is found about bridges, and the panel on the page of a queue. Nothing here asks the other broker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mq.bridges.declared import bridges, links_of, shown_address
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.queues import bridge_of, bridged_queues
from django_mq.diagnosis.language import LOCAL, time_text
from django_mq.diagnosis.state.overview import overview
from django_mq.engine.decisions.bridges import circles_of
from django_mq.errors import ConfigurationError
from django_mq.models.times import UTCNow
from django_mq.seams.findings import problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.http import HttpRequest

    from django_mq.engine.decisions.bridges import Bridge
    from django_mq.seams.findings import Finding

#: A connection that was not seen for so long is gone.
GONE: Final = timedelta(seconds=60)
#: Where messages wait for so long, something keeps them from the other broker.
LATE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class BridgeReport:
    """What is known of a bridge: its live connections, and what waits for it."""

    bridge: str
    links: list[BridgeLink]
    ready: int
    oldest_seconds: float

    @property
    def per_second(self) -> float:
        """How many messages a second it forwarded lately."""
        return sum(link.per_second for link in self.links)

    @property
    def working(self) -> list[BridgeLink]:
        """The connections through which messages can go."""
        return [link for link in self.links if link.state == BridgeLink.LinkState.CONNECTED]

    @property
    def last_error(self) -> str:
        """The newest error, without credentials."""
        failed = [link for link in self.links if link.error_at is not None]
        return max(failed, key=lambda link: (link.error_at, link.pk)).error if failed else ""


def reports(alias: str, queues: Mapping[str, str]) -> list[BridgeReport]:
    """Return what is known of each bridge of these queues."""
    live = BridgeLink.objects.using(alias).filter(seen_at__gt=UTCNow() - GONE)
    links: dict[str, list[BridgeLink]] = {}
    for link in live:
        links.setdefault(link.bridge, []).append(link)
    states = overview(sorted(queues), using=alias) if queues else []
    found = []
    for name in sorted(set(queues.values())):
        own = [state for state in states if queues[state.name] == name]
        found.append(
            BridgeReport(
                bridge=name,
                links=links.get(name, []),
                ready=sum(state.ready for state in own),
                oldest_seconds=max((state.oldest_ready_seconds or 0.0 for state in own), default=0.0),
            )
        )
    return found


def find(alias: str) -> Iterator[Finding]:
    """Yield what keeps messages from crossing the bridges. Sites without bridges are asked nothing."""
    queues = bridged_queues(alias)
    if not queues:
        return
    try:
        known = bridges()
    except ConfigurationError as error:
        yield problem(_("bridges"), str(error), _("Run manage.py check."))
        return
    for report in reports(alias, queues):
        yield from _of(report, known)
    for circle in circles_of(links_of(alias, queues, known)):
        way = " > ".join(f"{place} {queue}" for place, queue in [*circle, circle[0]])
        mend = _("Remove the option bridge of one of these queues.")
        yield problem(_("bridges"), _("Messages go in a circle: %(way)s.") % {"way": way}, mend)


def _of(report: BridgeReport, known: Mapping[str, Bridge]) -> Iterator[Finding]:
    about = _("bridge %(name)s") % {"name": report.bridge}
    if report.bridge not in known:
        words = _("DJANGO_MQ['BRIDGES'] does not have it, and queues name it.")
        yield problem(about, words, _("Add it, or remove the option bridge of the queues."))
        return
    late = report.ready and report.oldest_seconds > LATE_SECONDS
    waits = _waiting(report)
    if not report.links:
        if late:
            words = _("No worker forwards its messages.")
            yield problem(about, f"{words} {waits}", _("Start manage.py mq_worker with the queue."))
    elif not report.working:
        blocked = any(link.state == BridgeLink.LinkState.BLOCKED for link in report.links)
        words = _("The broker takes no messages for now.") if blocked else _("The broker cannot be reached.")
        mend = _("Look at the alarms of the broker: memory and disk.") if blocked else _("Start the broker.")
        yield problem(about, " ".join(filter(None, (words, report.last_error, waits))), mend)


def _waiting(report: BridgeReport) -> str:
    if not report.ready:
        return ""
    words = ngettext(
        "%(count)s message waits, the oldest for %(age)s.",
        "%(count)s messages wait, the oldest for %(age)s.",
        report.ready,
    )
    return words % {"count": LOCAL.number(report.ready), "age": LOCAL.duration(report.oldest_seconds)}


def show(_request: HttpRequest, queue: Any) -> str:
    """Return the panel of a queue: where its messages go, and how the connections are."""
    name, alias = bridge_of(queue), str(queue._state.db)  # noqa: SLF001 - the database of a row
    if name is None:
        return ""
    [report] = reports(alias, {queue.name: name})
    try:
        target = shown_address(bridges()[name])
    except (ConfigurationError, KeyError):
        target = _("unknown")
    lines = [
        _("Messages go through the bridge %(name)s to %(target)s.") % {"name": name, "target": target},
        _("Lately: %(rate)s.") % {"rate": LOCAL.rate(report.per_second)},
        _waiting(report),
        _("Last error: %(words)s") % {"words": report.last_error} if report.last_error else "",
    ]
    for link in report.links:
        since = time_text(link.since)
        lines.append(f"{link.worker}: {link.get_state_display()}, {since}")
    if not report.links:
        lines.append(_("No worker forwards its messages."))
    return format_html("{}", format_html_join("\n", "<p>{}</p>", ((line,) for line in lines if line)))
