"""The alerts by cause: since when each stands, what happened shortly before, and what resolves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django_mq.acts.models import Act
from django_mq.admin.columns import ago
from django_mq.admin.overview.alerts import for_page, with_message
from django_mq.admin.overview.marks import before, changes, shortly_before
from django_mq.admin.overview.snoozed import identity, with_link
from django_mq.admin.table import alias
from django_mq.alerts.recorder import began

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest

    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.alerts import Alert
    from django_mq.diagnosis.state.overview import QueueState

#: The most sentences of a kind: thirty late queues must not hide that another is full.
SHOWN: Final = 3
#: The most names of further queues of a kind.
NAMED: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertGroup:
    """The alerts of a kind: the worst ones as sentences, and the queues of the next ones."""

    kind: str
    label: str
    urgent: bool
    alerts: list[dict[str, Any]]
    more: Sequence[QueueState] = ()
    #: How many alerts there are.
    count: int = 1

    @property
    def named(self) -> Sequence[QueueState]:
        return self.more[:NAMED]

    @property
    def left(self) -> int:
        """How many alerts are not even named."""
        return len(self.more) - len(self.named)


def causes(
    admin: TableAdmin, request: HttpRequest, found: Sequence[Alert], added: Sequence[dict[str, Any]]
) -> list[AlertGroup]:
    """Return the alerts by cause, the worst first. What extensions have found are causes of their own."""
    kinds: dict[str, list[Alert]] = {}
    for alert in found:
        kinds.setdefault(alert.kind.value, []).append(alert)
    listed = {kind: [for_page(one, admin, request) for one in alerts[:SHOWN]] for kind, alerts in kinds.items()}
    linked = [with_message(one, admin, request) for one in added]
    dressed = iter(_dressed(admin, request, [*(one for each in listed.values() for one in each), *linked]))
    ours = [
        AlertGroup(
            kind=kind,
            label=str(shown[0]["label"]),
            urgent=any(alert.urgent for alert in kinds[kind]),
            alerts=[next(dressed) for _ in shown],
            more=[alert.queue for alert in kinds[kind][SHOWN:] if alert.queue],
            count=len(kinds[kind]),
        )
        for kind, shown in listed.items()
    ]
    others = [
        AlertGroup(kind=one["kind"], label=one["label"], urgent=one["urgent"], alerts=[one]) for one in dressed
    ]
    return sorted([*ours, *others], key=lambda cause: not cause.urgent)


def _dressed(admin: TableAdmin, request: HttpRequest, listed: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return alerts with their beginning, what happened shortly before, and the address that snoozes them."""
    since = began({identity(alert) for alert in listed}, using=alias())
    may_view = admin.may(request, "view_act")
    happened = changes([before(time) for time in since.values()], acts=may_view)
    dressed = []
    for alert in listed:
        time = since.get(identity(alert))
        changed = shortly_before(time, alert["queue"] or "", happened) if time else []
        dressed.append(
            with_link(admin, request, alert)
            | {
                "since": time,
                "began": time and ago(time),
                "changed": [
                    (change, ago(change.time), admin.page_address(Act, change.act) if change.act else "")
                    for change in changed
                ],
            }
        )
    return dressed
