"""Whether statements may be prepared on a connection that is not ours.

A prepared statement lives in one server process. Behind a pooler each transaction may meet
another, where it is not known. Whoever connects is told the number of his process, and a
pooler that gives connections away must make that number up: so the server itself is asked.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from psycopg import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

#: A connection that is used so often is worth the question, and the preparation.
WORTH_ASKING = 5
#: Where a connection keeps that cursor: the two end together.
CURSOR = "_django_mq_cursor"

#: Driver connection to how often it was used; when it was asked, to the answer.
_uses: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_answers: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def may_prepare(driver: Any, backend: Callable[[], int]) -> bool:
    """Whether it is used often and leads straight to the server, whose process ``backend`` asks for."""
    known = _answers.get(driver)
    if known is not None:
        return known
    _uses[driver] = uses = _uses.get(driver, 0) + 1
    if uses < WORTH_ASKING:
        return False
    direct = bool(driver.info.backend_pid == backend())
    _answers[driver] = direct
    return direct


def prepare_no_more(driver: Any) -> None:
    """Prepare nothing on this connection from now on."""
    _answers[driver] = False


@contextmanager
def preparing(driver: Any) -> Iterator[None]:
    """Let this statement be prepared, and none that the project itself runs on its connection."""
    threshold = driver.prepare_threshold
    driver.prepare_threshold = WORTH_ASKING
    try:
        yield
    finally:
        driver.prepare_threshold = threshold


def cursor_of(driver: Connection[Any]) -> Cursor[Any]:
    """Return the one cursor that the prepared statements of a connection share.

    Its answers are fetched at once, so nobody meets another's; making a new one each time would
    take a fifth of the client's time for a publish.
    """
    found: Cursor[Any] | None = getattr(driver, CURSOR, None)
    if found is None or found.closed:
        found = Cursor(driver)
        setattr(driver, CURSOR, found)
    return found
