"""Going on, in a command, with operations of the admin that have stalled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps

if TYPE_CHECKING:
    from collections.abc import Callable


def take_over(alias: str, halted: Callable[[], bool] = bool) -> tuple[int, list[int]]:
    """Go on with operations until they end, or one of their batches when ``halted``.

    Return how many, and the ids of those that only another version of this package can go on with. Do nothing
    where the settings have no admin: operations are begun there, and leave entries in its log.
    """
    if not apps.is_installed("django.contrib.admin"):
        return 0, []
    from django_mq.admin.operations import runner  # noqa: PLC0415 - cannot be imported without the admin

    return runner.take_over(using=alias, halted=halted)
