"""The statements of the store in use, as they are sent, with the plans of the database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from django_mq.errors import UnknownStatement
from django_mq.stores.connections import private_connection
from django_mq.stores.registry import store_for
from django_mq.stores.sql.database import heading_of, names_of, readable

#: The forms of a claim: by selectors, by declared selectors, and without settlements.
FORMS = ("wanted", "declared", "alone")
#: In place of the condition of a claim by selectors.
CONDITION = "AND true"


@dataclass(frozen=True, slots=True)
class PrintedStatement:
    """A statement of the store in use; its plan is empty if the database makes none for it."""

    name: str
    heading: str
    text: str
    plan: list[str]


def printed(alias: str, name: str) -> PrintedStatement:
    """Return the statement of this name; a colon and forms of a claim may follow it. Nothing runs but an EXPLAIN.

    The plan is that of a worker's connection, for any values. Raises UnknownStatement and StoreError.
    """
    with closing(store_for(private_connection(alias), private=True)) as store:
        package, [statement, *forms] = store.database.package, name.replace(",", ":").split(":")
        if statement not in names_of(package) or not set(forms) <= set(FORMS):
            raise UnknownStatement(_sentence(name, names_of(package)))
        text = readable(
            package,
            statement,
            store.database.now(),
            CONDITION if {"wanted", "declared"} & set(forms) else "",
            declared="declared" in forms,
            alone="alone" in forms,
        )
        return PrintedStatement(name, heading_of(package, statement), text, store.database.plan(text))


def _sentence(name: str, names: list[str]) -> str:
    given = f"There is no statement {name!r}." if name else "No statement is named."
    return f"{given} The statements are {', '.join(names)}. A claim has forms: NAME:{', NAME:'.join(FORMS)}."
