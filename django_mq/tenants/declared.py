"""The setting that names the search key, and the queues that have the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext as _

from django_mq import conf
from django_mq.engine.decisions.search_keys import NAME_LENGTH, names_in
from django_mq.engine.options import Option
from django_mq.models import Queue
from django_mq.search.extension import OPTION as SEARCH

if TYPE_CHECKING:
    from collections.abc import Sequence


def _fault(key: str) -> str | None:
    """Return what is wrong with the key. What no queue may have as a search key names no tenants either."""
    if names_in(key) != (key,):
        return "give the name of one search key"
    return SEARCH.refuse(key) if SEARCH.refuse else None


KEY: Final = Option(
    name="TENANT_KEY",
    type="str | None",
    default=None,
    length=NAME_LENGTH,
    help="The search key that names the tenants. None: there are no figures by tenant.",
    refuse=_fault,
)


def tenant_key() -> str | None:
    """Return the search key that names the tenants, or None."""
    key: str | None = KEY.value_in(conf.load())
    return key


def title_of(key: str) -> str:
    """Return the title of the page with the figures, by the name of the key."""
    return _("Top by %(key)s") % {"key": key}


def has_key(queue: Queue, key: str) -> bool:
    """Return whether a queue declares the search key."""
    return key in names_in(SEARCH.value_in(queue))


def queues_with(key: str, *, using: str) -> Sequence[Queue]:
    """Return the queues that declare the search key, by name."""
    queues = Queue.objects.using(using).only("name", "history_days", "other_options").order_by("name")
    return [queue for queue in queues if has_key(queue, key)]
