"""What extensions find, for the doctor, probes, metrics and the overview."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from django.db import transaction

from django_mq import conf
from django_mq.seams.findings import problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.seams.extension import Extension
    from django_mq.seams.findings import Finding

logger = logging.getLogger("django_mq.diagnosis")


class Found(NamedTuple):
    """A finding, and the name of the extension that found it."""

    extension: str
    finding: Finding


def found_by_extensions(*, using: str) -> list[Found]:
    """Return what the extensions find. An error of an extension is a finding, too."""
    return [
        Found(extension.name, finding)
        for extension in conf.load().EXTENSIONS
        for finding in _findings(extension, using)
    ]


def _findings(extension: Extension, alias: str) -> Iterator[Finding]:
    for find in extension.findings:
        try:
            # An error of a statement must not spoil the transaction of a page.
            with transaction.atomic(using=alias):
                found = list(find(alias))
        except Exception:
            logger.exception("The extension %r could not look for problems", extension.name)
            words = f"The extension {extension.name!r} could not look for problems; the log says why."
            mend = "Correct the extension, or remove it from DJANGO_MQ['EXTENSIONS']."
            found = [problem(extension.name, words, mend)]
        yield from found
