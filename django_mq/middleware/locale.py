"""Carry the language."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.utils import translation

from django_mq.middleware.header import HeaderMiddleware


class LocaleMiddleware(HeaderMiddleware):
    """Run handlers in the language that was active where the message was published.

    A language that the project does not have is left out: the handler runs in that of the worker.
    """

    header = "language"

    def value(self) -> str | None:
        return translation.get_language()

    def entered(self, value: str) -> AbstractContextManager[Any]:
        try:
            language = translation.get_supported_language_variant(value)
        except LookupError:
            return nullcontext()
        return translation.override(language)
