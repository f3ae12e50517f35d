"""What is known of bridges: their connections, and what waits for them. Nothing here asks the other broker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django_mq import conf
from django_mq.bridges.declared import bridges
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.queues import bridged_queues, by_bridge
from django_mq.diagnosis.state.overview import overview
from django_mq.engine.decisions.bridges import condition_of, is_bridge_problem
from django_mq.errors import ConfigurationError
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.engine.decisions.bridges import Bridge, BridgeCondition

#: A connection that was not seen for so long is gone.
GONE: Final = timedelta(seconds=60)
#: Where messages wait for so long, something keeps them from the other broker.
LATE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeReport:
    """What is known of a bridge: its live connections, and what waits for it."""

    name: str
    #: What the settings say; None if they do not have it.
    bridge: Bridge | None
    queues: tuple[str, ...]
    links: tuple[BridgeLink, ...]
    ready: int
    oldest_seconds: float
    #: The same without paused queues.
    late_seconds: float

    @property
    def per_second(self) -> float:
        """How many messages a second it forwarded lately."""
        return sum(link.per_second for link in self.links)

    @property
    def last_error(self) -> str:
        """The newest error, without credentials."""
        failed = [link for link in self.links if link.error_at is not None]
        return max(failed, key=lambda link: (link.error_at, link.pk)).error if failed else ""

    @property
    def is_late(self) -> bool:
        """Whether a message has waited for long, and no operator has paused its queue."""
        return self.late_seconds > LATE_SECONDS

    @property
    def condition(self) -> BridgeCondition:
        """What it does."""
        states = [link.state for link in self.links]
        return condition_of(states, is_known=self.bridge is not None, is_late=self.is_late)

    @property
    def is_problem(self) -> bool:
        """Whether messages cannot cross until something is mended."""
        return is_bridge_problem(self.condition, is_late=self.is_late)

    @property
    def since(self) -> datetime | None:
        """Since when a connection is in the state that decides; None if there is none."""
        states = BridgeLink.LinkState.values  # the one that decides is first
        found = [(states.index(link.state), link.since) for link in self.links]
        return min(found)[1] if found else None


def known_bridges() -> dict[str, Bridge]:
    """Return the bridges of the settings; none if these are wrong, which the checks say."""
    try:
        return bridges()
    except ConfigurationError:
        return {}


def reports(
    alias: str, queues: Mapping[str, str], states: Sequence[QueueState] | None = None
) -> list[BridgeReport]:
    """Return what is known of each bridge of these queues, whose ``states`` may be known already."""
    if not queues:
        return []
    live = BridgeLink.objects.using(alias).filter(seen_at__gt=UTCNow() - GONE)
    links: dict[str, list[BridgeLink]] = {}
    for link in live:
        links.setdefault(link.bridge, []).append(link)
    by_queue = {
        state.name: state for state in (overview(sorted(queues), using=alias) if states is None else states)
    }
    known = known_bridges()
    found = []
    for name, own in by_bridge(dict(queues)).items():
        waiting = [by_queue[queue] for queue in own if queue in by_queue]
        ages = [(state.oldest_ready_seconds or 0.0, state.paused) for state in waiting]
        found.append(
            BridgeReport(
                name=name,
                bridge=known.get(name),
                queues=tuple(own),
                links=tuple(links.get(name, ())),
                ready=sum(state.ready for state in waiting),
                oldest_seconds=max((age for age, _ in ages), default=0.0),
                late_seconds=max((age for age, is_paused in ages if not is_paused), default=0.0),
            )
        )
    return sorted(found, key=lambda report: report.name)


def every_report(alias: str, states: Sequence[QueueState] | None = None) -> list[BridgeReport]:
    """Return what is known of the bridges of all queues; a site without bridges is asked nothing."""
    return reports(alias, bridged_queues(alias), states) if conf.load().BRIDGES else []
