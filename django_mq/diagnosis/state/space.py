"""The room that the tables take: how much, how much of it for nothing, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.diagnosis.doctor.findings import notice, ok
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.diagnosis.doctor.findings import Finding
    from django_mq.stores.records import Space


def measure(alias: str) -> tuple[list[Space], list[tuple[str, str]]]:
    """Return what the tables take, and what is wrong with it, each with how to mend it."""
    store = shared_store(alias)
    spaces = store.spaces()
    return spaces, store.space_problems(spaces)


def look_at_space(alias: str) -> Iterator[Finding]:
    """Find tables that grow without need."""
    spaces, problems = measure(alias)
    for sentence, mend in problems:
        yield notice("space", sentence, mend)
    if not problems:
        size = sum(space.size for space in spaces)
        dead = sum(space.dead_rows or 0 for space in spaces)
        rest = f", {dead:,} dead rows among theirs" if dead else ""
        yield ok("space", f"The tables take {size / 2**20:,.0f} MiB{rest}.")
