"""Which declarations this process follows: what an earlier release does not know is not gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.periodic.models import PeriodicRelease

if TYPE_CHECKING:
    from django_mq.periodic.models import PeriodicMessage

#: The digest of the declarations of this process, for each database and source.
_followed: dict[tuple[str, str], str] = {}


def remember(alias: str, source: str, digest: str) -> None:
    """Note what this process declares."""
    _followed[alias, source] = digest


def knows(row: PeriodicMessage) -> bool:
    """Whether this process has the code that declares a row: the newest release, or none is needed."""
    if not row.source:
        return True
    releases = PeriodicRelease.objects.using(row.alias).filter(source=row.source)
    newest = releases.order_by("-id").values_list("digest", flat=True).first()
    return newest is not None and _followed.get((row.alias, row.source)) == newest
