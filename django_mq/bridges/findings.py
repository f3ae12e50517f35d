"""What is found about bridges, and the panel on the page of a queue. Nothing here asks the other broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mq.bridges.declared import bridges, links_of, shown_address
from django_mq.bridges.queues import bridge_of, bridged_queues
from django_mq.bridges.reports import reports
from django_mq.diagnosis.language import LOCAL, time_text
from django_mq.engine.decisions.bridges import BridgeCondition, circles_of
from django_mq.errors import ConfigurationError
from django_mq.seams.findings import notice, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest

    from django_mq.bridges.reports import BridgeReport
    from django_mq.seams.findings import Finding


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
        yield from _of(report)
    for circle in circles_of(links_of(alias, queues, known)):
        way = " > ".join(f"{place} {queue}" for place, queue in [*circle, circle[0]])
        mend = _("Remove the option bridge of one of these queues.")
        yield problem(_("bridges"), _("Messages go in a circle: %(way)s.") % {"way": way}, mend)


def _of(report: BridgeReport) -> Iterator[Finding]:
    about, condition = _("bridge %(name)s") % {"name": report.name}, report.condition
    if condition is BridgeCondition.UNKNOWN:
        words = _("DJANGO_MQ['BRIDGES'] does not have it, and queues name it.")
        yield problem(about, words, _("Add it, or remove the option bridge of the queues."))
    elif condition is BridgeCondition.LATE:
        words = _("It forwards, but messages wait for long.")
        mend = _("Start another worker that forwards, or look at how fast the broker confirms.")
        yield notice(about, f"{words} {_waiting(report)}", mend)
    elif report.is_problem:
        words, mend = sentences(condition)
        error = "" if condition is BridgeCondition.STOPPED else report.last_error
        yield problem(about, " ".join(filter(None, (words, error, _waiting(report)))), mend)


def sentences(condition: BridgeCondition) -> tuple[str, str]:
    """Return why no message crosses, and what to do."""
    if condition is BridgeCondition.STOPPED:
        return _("No worker forwards its messages."), _("Start manage.py mq_worker with the queue.")
    if condition is BridgeCondition.BLOCKED:
        return _("The broker takes no messages for now."), _("Look at the alarms of the broker: memory and disk.")
    return _("The broker cannot be reached."), _("Start the broker.")


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
        _("Forwarded per minute: %(rate)s") % {"rate": LOCAL.rate(60 * report.per_second)},
        _waiting(report),
        _("Last error: %(words)s") % {"words": report.last_error} if report.last_error else "",
    ]
    for link in report.links:
        since = time_text(link.since)
        lines.append(f"{link.worker}: {link.get_state_display()}, {since}")
    if not report.links:
        lines.append(_("No worker forwards its messages."))
    return format_html("{}", format_html_join("\n", "<p>{}</p>", ((line,) for line in lines if line)))
