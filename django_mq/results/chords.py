"""Chords: a row counts the members that have ended, and the last one decides how the chord ends.

The count is changed in the transaction that stores the member's result, by its last statements: the row of the
chord is locked from then until the commit. Of two members that end together, the second one sees the count of the
first, so exactly one of them sees the last. A member that runs again finds its own row, and is not counted.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, transaction
from django.db.models import F

from django_mq.engine.decisions.chords import ChordCount, ChordEnd, end_of
from django_mq.results.models import Chord, ChordMember
from django_mq.stores.clock import clock
from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

#: A process that ends a chord outside of the transaction has so long, before another one does it.
CARRIED_SECONDS: Final = 60
#: The expiry of a chord moves on with its members, in steps of this.
MOVED: Final = timedelta(minutes=10)


def begin(group_id: str, size: int | None, *, body: str = "", expires_at: datetime | None, using: str) -> None:
    """Announce a chord, or the number of its members. A chord that has ended begins anew."""
    known = Chord.objects.using(using).filter(group_id=group_id)
    news = {"expires_at": expires_at} | ({} if size is None else {"size": size, "body": body})
    with transaction.atomic(using=using):
        if known.filter(ended_at=None).update(**news):
            return
        new = Chord(group_id=group_id, **news)
        Chord.objects.using(using).bulk_create([new], ignore_conflicts=True)
        again = known.exclude(ended_at=None)
        if again.update(counted=0, failed=0, added=0, ended_at=None, carried_until=None, **news):
            ChordMember.objects.using(using).filter(group_id=group_id).delete()
        else:
            known.update(**news)


def add_member(group_id: str, *, using: str) -> None:
    """Let a chord wait for one member more."""
    known = Chord.objects.using(using).filter(group_id=group_id)
    if not known.update(added=F("added") + 1):
        begin(group_id, None, expires_at=None, using=using)
        known.update(added=F("added") + 1)


def count(*, group_id: str, has_failed: bool, expires_at: datetime | None, using: str, **member: Any) -> ChordEnd:
    """Count a member that has ended, in the open transaction, and return what to do with the chord.

    ``PUBLISH`` and ``FAIL`` are returned once. The caller then calls ``end`` or ``carry``.
    """
    known = Chord.objects.using(using).filter(group_id=group_id)
    # First: of two members that insert their rows together, MariaDB takes one for a deadlock.
    known.select_for_update().values_list("pk").first()
    is_new = store_for(connections[using]).results.join_chord(group_id=group_id, expires_at=expires_at, **member)
    if is_new:
        more = {"counted": F("counted") + 1, "failed": F("failed") + int(has_failed)}
        if not known.filter(ended_at=None).update(**more):
            # The publisher has not announced it yet, or it is over: then the new row goes with it.
            new = Chord(group_id=group_id, expires_at=expires_at)
            Chord.objects.using(using).bulk_create([new], ignore_conflicts=True)
            if not known.filter(ended_at=None).update(**more):
                ChordMember.objects.using(using).filter(group_id=group_id, task_id=member["task_id"]).delete()
                return ChordEnd.OVER
    chord = known.first()
    if chord is None:
        return ChordEnd.OVER
    # Not each time: with a new value in an index, PostgreSQL keeps all versions of the row in the indexes.
    if expires_at is not None and (chord.expires_at is None or expires_at - chord.expires_at > MOVED):
        known.update(expires_at=expires_at)
    return end_of(count_of(chord), clock.now())


def keep_until(expires_at: datetime | None) -> datetime:
    """Return how long a chord must be kept so that a member of this expiry does not move its expiry."""
    return clock.now() if expires_at is None else expires_at - MOVED


def count_of(chord: Chord) -> ChordCount:
    """Return what decides of the end of a chord."""
    ended = chord.ended_at is not None
    return ChordCount(chord.size, chord.added, chord.counted, chord.failed, ended, chord.carried_until)


def members_of(group_id: str, *, using: str) -> list[ChordMember]:
    """Return the members that have ended, in their places."""
    return list(ChordMember.objects.using(using).filter(group_id=group_id).order_by("position", "id"))


def carry(group_id: str, body: str, *, using: str) -> None:
    """Note that this process ends the chord after the commit. If it dies, another one does, after a minute."""
    now = clock.now()
    until = now + timedelta(seconds=CARRIED_SECONDS)
    Chord.objects.using(using).filter(group_id=group_id).update(ended_at=now, carried_until=until, body=body)


def end(group_id: str, *, using: str) -> None:
    """Note that the chord is over. Its row stays until it expires, so that a late member is not counted."""
    Chord.objects.using(using).filter(group_id=group_id).update(ended_at=clock.now(), carried_until=None, body="")
    ChordMember.objects.using(using).filter(group_id=group_id).delete()


def take_abandoned(limit: int, *, using: str) -> list[Chord]:
    """Return chords whose end was decided and not carried out, now for this process to carry out."""
    late = Chord.objects.using(using).filter(carried_until__lte=clock.now()).order_by("carried_until")
    return list(_taken(late[:limit], using))


def _taken(chords: Iterable[Chord], using: str) -> Iterable[Chord]:
    for chord in chords:
        until = clock.now() + timedelta(seconds=CARRIED_SECONDS)
        mine = Chord.objects.using(using).filter(pk=chord.pk, carried_until=chord.carried_until)
        if mine.update(carried_until=until):
            yield chord
