"""Give failed attempts their groups, by a duty of the maintenance: settlements do not wait for it.

An attempt is counted once: its row in ``GroupedFailure`` and the counts of its group are written in one
transaction. Of two processes that count the same attempts, one fails at the key of these rows, and does nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, Min, OuterRef
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Left

from django_mq.diagnosis.messages.masking import masked_headers
from django_mq.engine.decisions.fingerprint import READ, Fingerprint, fingerprint, most_frequent
from django_mq.failures.deploys import versions_at
from django_mq.models import (
    AcknowledgedLetter,
    Attempt,
    FailureGroup,
    FailureTally,
    GroupedFailure,
    Message,
    SnoozedAlert,
)
from django_mq.models.deletion import delete_first
from django_mq.models.message import ReadableHeaders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.db.models import QuerySet

    from django_mq.stores.base import Store

#: How far back the first look goes, and how long after a later one a transaction may commit an earlier attempt.
FIRST_LOOK: Final = timedelta(days=1)
LATE: Final = timedelta(minutes=5)
#: The step of the curve of a group.
STEP: Final = timedelta(minutes=10)
#: How long a group is kept after its last failure, as attempts are.
KEPT: Final = timedelta(days=30)
#: The header with the tenant of a message, as the middleware for tenants writes it, and its most characters here.
TENANT: Final = "tenant"
TENANT_LENGTH: Final = 100
#: How many of the newest groups are read for those of a queue.
LOOKED_AT: Final = 200
#: How many names of queues, types and workers a group has, the most frequent ones.
MOST_NAMES: Final = 20


class _Failed(NamedTuple):
    """A failed attempt, and what it has in common with others."""

    attempt: Attempt
    alike: Fingerprint
    #: The tenant of its message, and the version of the site; blank if they are not known.
    tenant: str
    version: str


def group_new(store: Store, limit: int) -> int:
    """Give the oldest attempts without a group their groups, at most ``limit``; return how many."""
    if not store.features.durable:
        return 0
    found = _failed(_new(store, limit), store.alias)
    with suppress(IntegrityError):  # another process has counted them
        if found:
            _count(found, store.alias)
            return len(found)
    return 0


def _new(store: Store, limit: int) -> list[Attempt]:
    alias = store.alias
    now = datetime.now(UTC) + timedelta(seconds=store.database.now_skew_seconds())
    newest = GroupedFailure.objects.using(alias).order_by("-pk").values_list("failed_at", flat=True).first()
    since = max(newest - LATE, now - KEPT) if newest else now - FIRST_LOOK
    return list(without_group(since, alias)[:limit])


def without_group(since: datetime, alias: str) -> QuerySet[Attempt]:
    """Return the attempts since then that have no group yet, the oldest first."""
    known = GroupedFailure.objects.filter(pk=OuterRef("pk"))
    rows = Attempt.objects.using(alias).filter(~Exists(known), failed_at__gte=since)
    return rows.annotate(head=Left("detail", READ)).defer("detail").order_by("failed_at", "pk")


def _failed(attempts: Sequence[Any], alias: str) -> list[_Failed]:
    if not attempts:
        return []
    tenants = _tenants(attempts, alias)
    versions = versions_at({attempt.failed_at for attempt in attempts}, using=alias)
    return [
        _Failed(
            attempt,
            fingerprint(attempt.error_path or attempt.error, attempt.head, attempt.traceback),
            tenants.get(attempt.message_id or attempt.correlation_id, ""),
            versions[attempt.failed_at],
        )
        for attempt in attempts
    ]


def _tenants(attempts: Sequence[Attempt], alias: str) -> dict[Any, str]:
    """Return the tenants of messages that are still there, by their ids; what MASK hides is left out."""
    tenant = KeyTextTransform(TENANT, ReadableHeaders())
    ids: dict[str, set[Any]] = {
        "message_id": {attempt.message_id for attempt in attempts if attempt.message_id},
        "correlation_id": {attempt.correlation_id for attempt in attempts if not attempt.message_id},
    }
    found = {}
    for name, values in ids.items():
        rows = Message.objects.using(alias).filter(**{f"{name}__in": values - {None}}).order_by()
        for key, queue, value in rows.values_list(name, "queue__name", tenant):
            if value and masked_headers({TENANT: value}, queue) == {TENANT: value}:
                found[key] = str(value)[:TENANT_LENGTH]
    return found


def _count(found: Sequence[_Failed], alias: str) -> None:
    by_key: defaultdict[str, list[_Failed]] = defaultdict(list)
    for one in found:
        by_key[one.alike.key].append(one)
    _create(by_key.values(), alias)
    with transaction.atomic(using=alias):
        # In one order, so that two processes do not wait for each other.
        groups = FailureGroup.objects.using(alias).select_for_update().order_by("pk")
        for group in groups.filter(fingerprint__in=by_key):
            _add(group, by_key[group.fingerprint], alias)


def _create(found: Iterable[Sequence[_Failed]], alias: str) -> None:
    """Write the groups that do not exist yet, without failures."""
    rows = [
        FailureGroup(
            fingerprint=alike.key,
            error=attempt.error,
            error_path=attempt.error_path,
            place=alike.place,
            text=alike.text,
            first_at=attempt.failed_at,
            last_at=attempt.failed_at,
        )
        for (attempt, alike, *_), *_ in found
    ]
    FailureGroup.objects.using(alias).bulk_create(rows, ignore_conflicts=True)


def _add(group: FailureGroup, found: Sequence[_Failed], alias: str) -> None:
    """Count these attempts in a group, whose row is locked."""
    attempts = [one.attempt for one in found]
    times = [attempt.failed_at for attempt in attempts]
    group.failures += len(attempts)
    group.first_at, group.last_at = min(group.first_at, *times), max(group.last_at, *times)
    group.queues = _named(group.queues, (attempt.queue_name for attempt in attempts))
    group.types = _named(group.types, (attempt.type for attempt in attempts))
    group.workers = _named(group.workers, (attempt.worker for attempt in attempts))
    group.tenants = _named(group.tenants, (one.tenant for one in found))
    group.versions = _named(group.versions, (one.version for one in found))
    group.save(using=alias)
    GroupedFailure.objects.using(alias).bulk_create(
        GroupedFailure(
            attempt_id=attempt.pk,
            group=group,
            failed_at=attempt.failed_at,
            message_id=attempt.message_id,
            correlation_id=attempt.correlation_id,
        )
        for attempt in attempts
    )
    for begins_at, number in Counter(map(step_of, times)).items():
        tally = FailureTally.objects.using(alias).filter(group=group, begins_at=begins_at)
        if not tally.update(failures=F("failures") + number):
            FailureTally.objects.using(alias).create(group=group, begins_at=begins_at, failures=number)


def step_of(time: datetime) -> datetime:
    """Return when the step of a curve has begun, in UTC."""
    time = time.astimezone(UTC)
    return time.replace(minute=time.minute // 10 * 10, second=0, microsecond=0)


def _named(counted: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return most_frequent(counted, filter(None, names), MOST_NAMES)


def newest_groups(groups: QuerySet[FailureGroup], queue: str, most: int) -> list[FailureGroup]:
    """Return those of these groups that failed last and have failures of the queue; one statement of few rows."""
    newest = groups.order_by("-last_at", "-id")[:LOOKED_AT]
    return [group for group in newest if queue in group.queues][:most]


def forget_old(store: Store, limit: int) -> dict[str, int]:
    """Delete groups without a failure for a month, and what is left of attempts and messages that are gone."""
    if not store.features.durable:
        return {}
    alias = store.alias
    then = datetime.now(UTC) + timedelta(seconds=store.database.now_skew_seconds()) - KEPT
    oldest = Attempt.objects.using(alias).aggregate(oldest=Min("pk"))["oldest"]
    gone = GroupedFailure.objects.using(alias).order_by("pk")
    gone = gone.filter(pk__lt=oldest) if oldest is not None else gone.filter(failed_at__lt=then)
    message = Message.objects.filter(pk=OuterRef("pk")).order_by()
    old: dict[str, QuerySet[Any]] = {
        "groups": FailureGroup.objects.using(alias).filter(last_at__lt=then).order_by("last_at"),
        "attempts": gone,
        "acknowledged": AcknowledgedLetter.objects.using(alias).filter(~Exists(message)).order_by("pk"),
        "snoozed": SnoozedAlert.objects.using(alias).filter(until__lt=then).order_by("until"),
        "tallies": FailureTally.objects.using(alias).filter(begins_at__lt=then).order_by("begins_at"),
    }
    return {name: delete_first(rows, limit) for name, rows in old.items()}
