"""A root is one database's: another one's manifests would be overwritten, and its directories taken for litter."""

from __future__ import annotations

import json

from django_mq.errors import PipelineError
from django_mq.models import ArchiveBatch
from django_mq.pipeline.archive import files


def check_own(root: str, alias: str) -> None:
    """Return if all manifests below the root are this database's. Raises PipelineError."""
    known = {
        (batch.pk, files.name_of(batch.path))
        for batch in ArchiveBatch.objects.using(alias).only("path").exclude(path="")
    }
    for name, text in files.read_texts(f"{root}/{files.MANIFESTS}").items():
        if _names(text) not in known:
            raise PipelineError(
                f"{root}/{files.MANIFESTS}/{name} is a batch that this database does not know: the root holds the "
                "archive of another one, or this one was brought back from a backup. Give each database a root of "
                "its own; if nobody needs that batch, move its manifest away."
            )


def _names(text: str) -> tuple[int, str] | None:
    try:
        told = json.loads(text)
        return int(told["batch"]), files.name_of(str(told["path"]))
    except (ValueError, KeyError, TypeError):
        return None
