"""What extensions find, for the doctor, probes, metrics and the overview."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from django.db import transaction

from django_mq import conf
from django_mq.seams.findings import problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.seams.findings import Finding

    Find = Callable[[str], Iterable[Finding]]

logger = logging.getLogger("django_mq.diagnosis")


class Found(NamedTuple):
    """A finding, and the name of the extension that found it."""

    extension: str
    finding: Finding


def found_by_extensions(*, using: str) -> list[Found]:
    """Return what the extensions find. An error of an extension is a finding, too."""
    looks = [(extension.name, find) for extension in conf.load().EXTENSIONS for find in extension.findings]
    try:
        return _found(looks, using)
    except Exception:  # noqa: BLE001 - the look that failed fails again by itself, and is logged
        return [found for name, find in looks for found in _found_alone(name, find, using)]


def _found(looks: Iterable[tuple[str, Find]], alias: str) -> list[Found]:
    # An error of a statement must not spoil the transaction of a page.
    with transaction.atomic(using=alias):
        return [Found(name, finding) for name, find in looks for finding in find(alias)]


def _found_alone(name: str, find: Find, alias: str) -> list[Found]:
    try:
        return _found([(name, find)], alias)
    except Exception:
        logger.exception("The extension %r could not look for problems", name)
        words = f"The extension {name!r} could not look for problems; the log says why."
        mend = "Correct the extension, or remove it from DJANGO_MQ['EXTENSIONS']."
        return [Found(name, problem(name, words, mend))]
