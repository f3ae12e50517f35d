"""How somebody else's function is called: it may do what it likes, but not to the queue."""

import logging
from collections.abc import Callable
from typing import Any, Final

_logger: Final = logging.getLogger("django_mq.engine")


def tell(whom: Callable[[Any], None], what: Any) -> None:
    """Call ``whom``, and log what it raises.

    It is called in the middle of a change, under the lock. What it raised would leave the
    change half done: a message in two queues, or claimed and never handed over.
    """
    try:
        whom(what)
    except Exception:
        _logger.exception("What was told of %r has failed", what)
