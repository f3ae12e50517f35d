"""Loads the hand-written statements: one per file, the file named as the store method or step.

A statement that databases share stands in ``stores/sql/sql``; the folder of a database has its own form of
the others. ``{now}`` in a file stands for the store's one time expression, ``{option_columns}`` and its like for
columns of a queue's options, ``{name}`` for the fragment in ``_name.sql``. Values never enter the text: they are
always parameters.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from django_mq.stores import option_columns

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

#: The package whose ``sql`` folder has what all databases share.
SHARED = "django_mq.stores.sql"
#: The only thing that is ever put into a statement's text, and only from this package.
PLACEHOLDER = re.compile(r"\{(\w+)\}")
#: Where a value stands in a statement's text, by its name.
PARAMETER = re.compile(r"%\((\w+)\)s")


@cache
def statement(package: str, name: str, now: str) -> str:
    """Return the text of ``name`` for the database of ``package``, placeholders filled, comments dropped.

    Raises FileNotFoundError for a name without a file: a programming error.
    """

    def fill(match: re.Match[str]) -> str:
        word = match.group(1)
        return given[word] if word in given else statement(package, f"_{word}", now)

    given = {"now": now, **option_columns.texts()}

    text = _file(package, name).read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return PLACEHOLDER.sub(fill, code).strip()


def _file(package: str, name: str) -> Traversable:
    own = files(package) / "sql" / f"{name}.sql"
    return own if own.is_file() else files(SHARED) / "sql" / f"{name}.sql"
