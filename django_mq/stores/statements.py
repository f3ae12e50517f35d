"""Loads the hand-written statements: one per file, the file named as the store method or step.

``{now}`` in a file stands for the store's one time expression; ``{name}`` for the
fragment in ``_name.sql`` of the same folder. Values never enter the text: they are
always parameters.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

#: The only thing that is ever put into a statement's text, and only from these files.
PLACEHOLDER = re.compile(r"\{(\w+)\}")
#: Where a value stands in a statement's text, by its name.
PARAMETER = re.compile(r"%\((\w+)\)s")


@cache
def statement(package: str, name: str, now: str) -> str:
    """Return the text of ``name`` in ``package``'s sql folder, placeholders filled, comments dropped.

    Raises FileNotFoundError for a name without a file: a programming error.
    """

    def fill(match: re.Match[str]) -> str:
        word = match.group(1)
        return now if word == "now" else statement(package, f"_{word}", now)

    text = (files(package) / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return PLACEHOLDER.sub(fill, code).strip()
