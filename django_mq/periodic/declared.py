"""How rows follow the code.

Each worker compares the declarations of its code with the newest ones when it begins. Declarations that were never
seen begin a release: rows are made, changed and deleted. Declarations of an earlier release are those of an old
worker in a rolling deploy: it changes nothing. What an operator has changed stays.
"""

from __future__ import annotations

import hashlib
import json
import logging
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import IntegrityError, transaction

from django_mq import conf
from django_mq.engine.decisions.periodic import followed, is_old
from django_mq.engine.options import Option
from django_mq.errors import ConfigurationError
from django_mq.periodic import editor
from django_mq.periodic.decorator import declarations
from django_mq.periodic.models import PeriodicMessage, PeriodicRelease
from django_mq.periodic.releases import remember
from django_mq.periodic.values import fields_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_mq.periodic.decorator import Declaration
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.periodic")

#: What declares: ``@periodic``.
CODE: Final = "code"
#: Tells apart projects that share a database.
PROJECT: Final = Option(
    name="PERIODIC_PROJECT",
    type="str",
    default="",
    length=80,
    help="The project whose code declares periodic messages; blank for the package of its settings.",
)


def source_of(kind: str) -> str:
    """Return what stands in the rows that this project declares: those of other projects are left alone."""
    module = getattr(settings, "SETTINGS_MODULE", None) or ""
    project = PROJECT.value_in(conf.load()) or module.partition(".")[0][: PROJECT.length]
    return f"{kind} of {project}" if project else kind


def digest_of(declared: Sequence[Declaration]) -> str:
    """Return what tells these declarations from others."""
    text = json.dumps(sorted((each.name, each.values) for each in declared), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def declare_all(store: Store, _limit: int) -> int:
    """Let the rows follow the code of this process, if it is not old; return how many were changed."""
    if not store.features.durable:
        return 0
    found = declarations()
    for name, why in found.wrong.items():
        logger.error("The periodic message %r is left as it was: %s", name, why)
    return follow(store.alias, source_of(CODE), found.right, wrong=found.wrong)


def follow(
    alias: str,
    source: str,
    declared: Sequence[Declaration],
    *,
    wrong: Collection[str] = (),
    anyway: bool = False,
) -> int:
    """Let the rows follow these declarations; return how many were changed.

    Rows whose declarations are ``wrong`` stay as they are. Declarations of an earlier release change nothing,
    unless ``anyway``: then they are the newest from now on, and take over the rows of other projects that have
    their names.
    """
    digest = digest_of(declared)
    remember(alias, source, digest)
    releases = PeriodicRelease.objects.using(alias).filter(source=source)
    known = list(releases.order_by("id").values_list("digest", flat=True))
    if known[-1:] == [digest] or not (known or declared):
        return 0
    if is_old(digest, known) and not anyway:
        logger.info("Newer code declares other periodic messages than this worker, which leaves them as they are")
        return 0
    try:
        with transaction.atomic(using=alias):
            releases.filter(digest=digest).delete()
            # The second of two workers waits here for the first, and finds the row.
            PeriodicRelease.objects.using(alias).create(
                source=source, digest=digest, began_at=editor.database_now(alias)
            )
            return _write(alias, source, declared, wrong, adopt=anyway)
    except IntegrityError:
        return 0


def _write(
    alias: str, source: str, declared: Sequence[Declaration], wrong: Collection[str], *, adopt: bool
) -> int:
    rows = PeriodicMessage.objects.using(alias)
    if adopt:
        names = [each.name for each in declared]
        rows.exclude(source__in=["", source]).filter(name__in=names).update(source=source)
    mine = {row.name: row for row in rows.filter(source=source).exclude(name__in=wrong)}
    others = dict(rows.exclude(source=source).values_list("name", "source"))
    changed = 0
    for declaration in declared:
        if declaration.name in others:
            logger.warning(
                "The periodic message %r is not made: one that %s has declared has its name. Rename one of them,"
                " or run manage.py mq_periodic declare to take it over",
                declaration.name,
                others[declaration.name] or "an operator",
            )
            continue
        changed += _follow(mine.pop(declaration.name, None), declaration, source, alias)
    for row in mine.values():
        editor.delete(row)
    return changed + len(mine)


def _follow(row: PeriodicMessage | None, declaration: Declaration, source: str, alias: str) -> bool:
    """Let a row follow its declaration; return whether it was changed."""
    if row is None:
        row = PeriodicMessage(name=declaration.name, source=source, **fields_of(declaration.values))
        row.declared = dict(declaration.values)
        editor.save(row, using=alias)
        return True
    is_changed = row.declared != declaration.values
    if is_changed:
        values = followed(row.values, row.declared or {}, declaration.values)
        for name, value in fields_of(values).items():
            setattr(row, name, value)
        row.declared = dict(declaration.values)
        try:
            editor.save(row, using=alias)
        except ConfigurationError as error:
            logger.warning("What an operator has changed contradicts the code, and stays as it is: %s", error)
            return False
    if row.is_gone:
        editor.resume(row)  # this release may have what was gone
    return is_changed
