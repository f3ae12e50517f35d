"""The option of queues, and where search keys enter."""

from __future__ import annotations

from functools import partial

from django_mq import conf
from django_mq.engine.decisions.search_keys import MOST_KEYS, NAME_LENGTH, fault_of
from django_mq.engine.options import Option
from django_mq.seams.extension import Duty, Extension, SearchKeys
from django_mq.search.finder import find, keys_by_message
from django_mq.search.pruning import INTERVAL_SECONDS, prune
from django_mq.search.writer import write_keys


def _fault(declared: str) -> str | None:
    """Return what is wrong with a declaration. The settings are read as written: they are being checked."""
    mask = conf.raw().get("MASK", ())
    return fault_of(declared, [] if isinstance(mask, str) or not hasattr(mask, "__iter__") else [*map(str, mask)])


def _(text: str) -> str:
    """Mark a text for translation."""
    return text


OPTION = Option(
    name="search",
    type="str",
    default="",
    length=(NAME_LENGTH + 1) * MOST_KEYS,
    label=_("search keys"),
    help=_(
        "Names of headers, fields of bodies or keyword arguments of tasks, with spaces between them. Messages "
        "published from now on are found by these for as long as the history has them."
    ),
    section="Finished messages",
    is_names=True,
    at_publishing=True,
    refuse=_fault,
)

EXTENSION = Extension(
    name="search",
    queue_options=(OPTION,),
    written=(partial(write_keys, OPTION),),
    searches=(SearchKeys(find=find, of=keys_by_message),),
    duties=(Duty(name="keys", run=prune, interval_seconds=INTERVAL_SECONDS, leader_only=True),),
)
