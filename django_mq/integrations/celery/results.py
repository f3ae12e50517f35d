"""The answer to ``django-mq://`` as a result backend: django_mq keeps no results.

Celery finds ``no_backend`` by an entry point, and calls it with the first ``delay()`` and when a worker starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.errors import ConfigurationError

if TYPE_CHECKING:
    from typing import NoReturn

#: What to write instead.
INSTEAD = "Use 'django-db' of django-celery-results, Redis or 'rpc://'. If nothing reads results, leave it out."


def no_backend(app: Any, url: str | None = None, **_: Any) -> NoReturn:
    """Raise ConfigurationError, in place of a result backend."""
    given = url or app.conf.result_backend
    raise ConfigurationError(f"The result backend is {given!r}, but django_mq keeps no results. {INSTEAD}")
