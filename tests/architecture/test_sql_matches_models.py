"""The SQL files and the models name the same tables and columns, and the folders the same statements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.apps import apps

from django_mq import stores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import Field

FOLDER = Path(stores.__file__).parent
PACKAGES = ("postgresql", "sqlite")
TABLES = {model._meta.db_table: model for model in apps.get_app_config("django_mq").get_models()}

#: Statements that one folder has and the other has not, and why.
ONLY = {
    "postgresql": {
        "append_at_once": "SQLite keeps compiled statements, and has nothing to gain from a second one",
        "append_many": "arrays of bytes travel as parameters; SQLite runs append.sql once per message",
        "copy_messages": "SQLite has no COPY",
        "copy_targets": "as above",
        "settle_and_claim": "a round trip is dear; SQLite has none",
        "settle_and_claim_across": "as above",
        "backend": "SQLite has no server processes",
        "clock": "SQLite's clock is this machine's",
        "limit_waiting": "SQLite's one write lock keeps publishers out already",
        "lock_messages": "as above",
    },
    "sqlite": {
        "anything_lapsed": "nobody takes SQLite's one write lock without something to write",
        "claimable": "as above",
        "volatile_waiting": "as above",
        "lock_for_writing": "a deferred transaction may be refused the lock for good",
        "lease": "the second half of claim.sql and claim_across.sql",
        "remember_finished": "the first half of settle_finished.sql",
        "remember_removed": "the first half of remove.sql",
        "give_back_lapsed": "the second half of release_lapsed.sql",
        "drop_bindings": "the first half of drop_queue.sql",
        "mark_tail": "PostgreSQL's sequence is never behind the ids in use",
        "change_marker": "PostgreSQL has no change marker",
        "journal_mode": "PostgreSQL's log is always on",
    },
}


def code_of(path: Path) -> str:
    return "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))


SQL_FILES = [path for package in PACKAGES for path in sorted((FOLDER / package / "sql").glob("[!_]*.sql"))]


def label(path: Path) -> str:
    return f"{path.parents[1].name}/{path.stem}"


def inserts() -> Iterator[tuple[str, str, set[str]]]:
    """Yield file, table and columns of every INSERT, and of the COPY."""
    for path in SQL_FILES:
        for table, columns in re.findall(r"(?:INSERT INTO|COPY) (\w+) \(([^)]*)\)", code_of(path)):
            yield label(path), table, {name.strip() for name in columns.split(",")}


INSERTS = [pytest.param(table, columns, id=f"{file} into {table}") for file, table, columns in inserts()]


def columns_of(table: str) -> dict[str, Field]:  # type: ignore[type-arg]
    return {field.column: field for field in TABLES[table]._meta.local_concrete_fields}


@pytest.mark.parametrize(("table", "columns"), INSERTS)
def test_an_insert_names_columns_of_its_model(table: str, columns: set[str]) -> None:
    assert columns <= set(columns_of(table))


@pytest.mark.parametrize(("table", "columns"), INSERTS)
def test_an_insert_leaves_out_only_what_may_be_null(table: str, columns: set[str]) -> None:
    left_out = {name for name, field in columns_of(table).items() if not (field.null or field.primary_key)}

    # Django keeps a field's default out of the database, so that a row without it is refused.
    assert left_out <= columns


def test_a_statement_names_tables_of_the_models() -> None:
    strange = {label(path): set(re.findall(r"\bdjango_mq_\w+", code_of(path))) - set(TABLES) for path in SQL_FILES}

    assert not {name: words for name, words in strange.items() if words}


def test_a_heading_names_indexes_that_exist() -> None:
    metas = [model._meta for model in TABLES.values()]
    known = {item.name for meta in metas for item in (*meta.indexes, *meta.constraints)} | set(TABLES)

    strange = {label(path): set(re.findall(r"\bdjango_mq_\w+", path.read_text())) - known for path in SQL_FILES}

    assert not {name: words for name, words in strange.items() if words}


@pytest.mark.parametrize(("one", "other"), [PACKAGES, PACKAGES[::-1]])
def test_both_folders_have_the_same_statements_but_for_reasons(one: str, other: str) -> None:
    names = {package: {path.stem for path in SQL_FILES if path.parents[1].name == package} for package in PACKAGES}

    assert names[one] - names[other] == set(ONLY[one])


def test_every_index_of_the_hot_table_serves_a_statement() -> None:
    described = "\n".join(path.read_text() for path in SQL_FILES)
    # Looking a message up by its correlation id is the admin's, not a store's.
    indexes = {index.name for index in TABLES["django_mq_message"]._meta.indexes} - {"django_mq_message_corr"}

    assert not [name for name in indexes if name.removeprefix("django_mq_message") not in described]
