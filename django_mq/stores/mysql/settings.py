"""What a connection to MariaDB or MySQL needs: an isolation without gap locks, and bounded waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ISOLATION = "read committed"
CONNECT_SECONDS = 10
#: How long a worker waits for a lock before it begins anew; with all its tries less than a session's deadline.
LOCK_SECONDS = 3
#: The first versions with all that the statements need: SKIP LOCKED, descending indexes, ids of their own type.
OLDEST = {"MariaDB": (10, 11), "MySQL": (8, 4)}


def bounded(settings: Mapping[str, Any], statement_seconds: float) -> dict[str, Any]:
    """Return the settings of a private connection: time limits, where the project sets none, and our isolation.

    A half-open connection would otherwise hold the worker's loop until the kernel gives up. The
    driver knows whole seconds only, and the server's own limit should come first.
    """
    silence = int(statement_seconds) + LOCK_SECONDS
    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": silence, "write_timeout": silence}
    return {**settings, "OPTIONS": {**limits, **settings.get("OPTIONS", {}), "isolation_level": ISOLATION}}


def problems(name: str, version: tuple[int, ...], variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (problem, hint) for what makes the queue slow or fragile."""
    oldest = OLDEST[name]
    if version < oldest:
        wanted, found = (".".join(map(str, numbers)) for numbers in (oldest, version))
        yield f"{name} {found} is too old.", f"Use {name} {wanted} or later."
    isolation = variables.get("transaction_isolation") or variables.get("tx_isolation", "")
    if isolation != "READ-COMMITTED":
        yield (
            f"Transactions are isolated as {isolation}: publishers and workers lock gaps and wait for each other.",
            "Take 'isolation_level' out of the OPTIONS of the database: Django's default is read committed.",
        )
    if "STRICT_" not in variables.get("sql_mode", ""):
        yield (
            "The database cuts values that do not fit instead of refusing them.",
            "Add STRICT_TRANS_TABLES to the server's sql_mode.",
        )
