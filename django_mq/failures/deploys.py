"""The versions of the site. The first worker process of a new version is a deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django_mq import conf
from django_mq.models import Deploy
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django_mq.stores.base import Store

#: How many deploys are looked through, the newest ones.
MOST_DEPLOYS: Final = 100


def note_version(store: Store, _limit: int) -> int:
    """Write the version of this process, unless it is known; return whether it was written."""
    version = conf.load().VERSION
    if version is None or not store.features.durable:
        return 0
    deploys = Deploy.objects.using(store.alias)
    if deploys.filter(version=version).exists():
        return 0
    # By the database's clock, which all processes share. Another process may write it at the same time.
    deploys.bulk_create([Deploy(version=version, first_at=UTCNow())], ignore_conflicts=True)
    return 1


def versions_at(times: Iterable[datetime], *, using: str) -> dict[datetime, str]:
    """Return the version of the last deploy before each of these times; blank if it is not known."""
    deploys = list(Deploy.objects.using(using).order_by("-first_at", "-pk")[:MOST_DEPLOYS])
    return {time: next((each.version for each in deploys if each.first_at <= time), "") for time in times}


def last_deploy(*, using: str) -> Deploy | None:
    """Return the newest deploy; None if the site has no ``VERSION``."""
    return Deploy.objects.using(using).order_by("-first_at", "-pk").first()
