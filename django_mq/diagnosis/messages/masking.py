"""Hides parts of messages in the admin and in commands that print bodies.

``DJANGO_MQ["MASK"]`` names keys, or a function. Nothing is hidden from handlers, from ``browse`` in code, or from
the archive.

If the function fails, or a body has no keys to look for, all of the body is hidden.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import import_string

from django_mq import conf

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Takes a decoded body or headers and the name of the queue; returns what may be shown.
    Rule = Callable[[Any, str], Any]

logger = logging.getLogger("django_mq.diagnosis")

#: Shown in place of what is hidden.
HIDDEN = "***"
#: Headers in which Celery repeats the arguments of a task.
REPEATING = frozenset({"argsrepr", "kwargsrepr"})


def is_masking() -> bool:
    return bool(conf.load().MASK)


def masked(value: Any, queue: str) -> Any:
    """Return what may be shown of a decoded body: JSON values, text or bytes."""
    given = conf.load().MASK
    return _by(given, value, queue) if given else value


def masked_headers(headers: Any, queue: str) -> Any:
    """Return what may be shown of headers."""
    given = conf.load().MASK
    if not given:
        return headers
    if isinstance(headers, dict):
        headers = {name: HIDDEN if name in REPEATING else value for name, value in headers.items()}
    return _by(given, headers, queue)


def _by(given: Any, value: Any, queue: str) -> Any:
    try:
        return _rule(given)(value, queue)
    except Exception:
        logger.exception("MASK has failed on a message of %r; all of it is hidden", queue)
        return HIDDEN


@lru_cache(maxsize=4)
def _rule(given: Any) -> Rule:
    """Return the rule for a setting. Raises ImportError."""
    if isinstance(given, str):
        imported: Rule = import_string(given)
        return imported
    if callable(given):
        return given  # type: ignore[no-any-return]
    keys = frozenset(key.lower() for key in given)
    return lambda value, _queue: hide_keys(value, keys)


def hide_keys(value: Any, keys: frozenset[str]) -> Any:
    """Return JSON values without the values of these keys, at any depth. Text and bytes are hidden whole."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if str(name).lower() in keys else _within(inner, keys) for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_within(item, keys) for item in value]
    return value if value is None or isinstance(value, (bool, int, float)) else HIDDEN


def _within(value: Any, keys: frozenset[str]) -> Any:
    return hide_keys(value, keys) if isinstance(value, (Mapping, list, tuple)) else value
