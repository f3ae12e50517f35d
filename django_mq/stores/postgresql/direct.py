"""Statements sent through libpq itself, past the driver's cursors.

A cursor searches the text for parameters, asks each value for its type, and looks the statement
up among those it has prepared; for one row that takes longer than all the rest of a publish in
its client. What is sent here is prepared once under a name of its own and takes its values as
bytes in the server's binary format. The connection's lock, its way of waiting and its errors are
still the driver's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from psycopg import generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, PipelineStatus, TransactionStatus

from django_mq.stores.statements import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection
    from psycopg.pq.abc import PGresult

#: Types by the server's numbers, which never change.
BYTES, SMALL_NUMBER, TEXT, UUID = 17, 21, 25, 2950
DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
# Plain names for what every publish meets: Python 3.11 takes as long to look a member up on its class
# as to compare it.
BINARY, IDLE, IN_TRANSACTION, NO_PIPELINE = (
    Format.BINARY,
    TransactionStatus.IDLE,
    TransactionStatus.INTRANS,
    PipelineStatus.OFF,
)
#: Where a connection keeps the names of what was prepared here: they end with it.
PREPARED = "_django_mq_prepared"
#: Where it keeps that this is over.
LEFT_TO_CURSORS = "_django_mq_left_to_cursors"


def is_open(driver: Connection[Any]) -> bool:
    """Whether a statement may be sent now, and what is prepared here will be there the next time.

    A driver that has prepared statements itself drops all that are prepared on its connection after
    any rollback: there its cursors, which know of that, must be used.
    """
    pg = driver.pgconn
    if (
        getattr(driver, LEFT_TO_CURSORS, False)
        or driver.prepare_threshold is not None
        or pg.pipeline_status != NO_PIPELINE
    ):
        return False
    if pg.parameter_status(b"client_encoding") != b"UTF8":
        return False
    status = pg.transaction_status
    if status == IDLE:
        return driver.autocommit or _begins_plainly(driver)
    return bool(status == IN_TRANSACTION)


def leave_to_cursors(driver: Connection[Any]) -> None:
    """Send nothing past the cursors any more: one of them is about to prepare a statement."""
    setattr(driver, LEFT_TO_CURSORS, True)


def _begins_plainly(driver: Connection[Any]) -> bool:
    """Whether the driver would begin a transaction without saying of what kind."""
    return driver.isolation_level is None and driver.read_only is None and driver.deferrable is None


def first_value(
    driver: Connection[Any], text: str, types: tuple[tuple[str, int], ...], values: Sequence[bytes | None]
) -> bytes | None:
    """Run the statement; return the first column of its first row, None if there is no row.

    ``types`` names the parameters, in any order, and ``values`` follow that order, both in the
    server's binary format. Raises psycopg's errors.
    """
    with driver.lock:
        if not driver.autocommit and driver.pgconn.transaction_status == IDLE:
            # As the driver does before the first statement of a transaction.
            driver.pgconn.send_query(b"BEGIN")
            _result(driver)
        name = _prepared(driver, text, types)
        driver.pgconn.send_query_prepared(name, values, [BINARY] * len(values), BINARY)
        result = _result(driver)
    return result.get_value(0, 0) if result.ntuples else None


def _prepared(driver: Connection[Any], text: str, types: tuple[tuple[str, int], ...]) -> bytes:
    """Return the name of the statement on this connection, prepared now if it was not yet."""
    names: dict[str, bytes] | None = getattr(driver, PREPARED, None)
    if names is None:
        names = {}
        setattr(driver, PREPARED, names)
    name = names.get(text)
    if name is None:
        name = b"django_mq_%d" % len(names)
        numbered = _numbered(text, tuple(parameter for parameter, _ in types))
        driver.pgconn.send_prepare(name, numbered, [number for _, number in types])
        _result(driver)
        names[text] = name
    return name


@cache
def _numbered(text: str, names: tuple[str, ...]) -> bytes:
    """Return the text with ``$1`` for the first of the names, and so on."""
    return PARAMETER.sub(lambda match: f"${names.index(match.group(1)) + 1}", text).encode()


def _result(driver: Connection[Any]) -> PGresult:
    result: PGresult = driver.wait(generators.execute(driver.pgconn))[-1]
    if result.status not in DONE:
        raise error_from_result(result)
    return result
