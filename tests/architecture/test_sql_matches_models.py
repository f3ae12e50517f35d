"""The SQL files and the models name the same tables and columns, and the folders the same statements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.apps import apps

from django_mq import stores
from django_mq.stores.sql.database import named, statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import Field

FOLDER = Path(stores.__file__).parent
PACKAGES = ("postgresql", "sqlite", "mysql")
#: A table without a model, which only the notifier uses: migration 0004 says why.
IDLE = "django_mq_idle"
#: Another one: the minutes of earlier releases.
MINUTES = "django_mq_rollup"
TABLES = {model._meta.db_table: model for model in apps.get_app_config("django_mq").get_models()}

#: Statements that not every folder has, and why.
ONLY = {
    "announce": "only PostgreSQL notifies sessions itself",
    "looks_by": "as above",
    "register_idle": "as above",
    "unregister_idle": "as above",
    "notify_topics": "as above",
    "topic_channels": "as above",
    "notification_usage": "as above",
    "hold_listener_lock": "as above",
    "append_at_once": "PostgreSQL plans each publish anew, SQLite hears of parameters by name: short is quick",
    "remember_moved": "SQLite moves rows in place, and cannot say in the same statement what they were",
    "last_id": "only SQLite numbers the rows of one connection without a gap",
    "copy_messages": "only PostgreSQL has a COPY from its client",
    "copy_alike": "as above",
    "copy_targets": "as above",
    "backend": "only PostgreSQL has poolers that give each transaction another process",
    "idle_limit": "MariaDB limits the whole connection; SQLite has no server that could end anything",
    "bound_transaction": "as above",
    "end_stuck": "MariaDB ends these itself",
    "lock_holders": "SQLite has one lock for all, and no list of transactions",
    "speak_for": "PostgreSQL keeps the last statement of a connection, which names the worker",
    "reset_connection": "only PostgreSQL can undo all that statements have set on a connection",
    "assume_role": "as above",
    "longest_transaction": "only PostgreSQL cleans up behind transactions, in a table's own room",
    "isolation": "SQLite has one isolation, and on MariaDB it is one of its variables",
    "next_due": "PostgreSQL's claims say so themselves",
    "next_woken": "only SQLite's claim looks before it takes its lock",
    "first_parked": "the first half of free there",
    "woken": "the first part of free_due there: lock_unheld and free follow",
    "free_due": "as above",
    "claim_across": "MariaDB locks with lock_chosen what candidates has found",
    "claim_across_by_limits": "a limit per queue is dear there; elsewhere claim_across keeps to it at no cost",
    "claim_across_by_bytes": "MariaDB's claim counts the bytes of what it has locked in Python",
    "claim_declared": "MariaDB has no partial indexes",
    "claim_from_cursor": "PostgreSQL keeps what was deleted until a vacuum, in the way of claims",
    "writers": "as above",
    "append_first": "only PostgreSQL writes into two tables in one statement",
    "append_first_within": "as above",
    "append_over": "as above",
    "append_over_within": "as above",
    "take_first_key": "the first part of append_first, or of append_over",
    "take_over_key": "as above",
    "append_keyed": "the last part of append_first; append_at_once in SQLite",
    "takers_of": "take_keys says so elsewhere",
    "fair_level_of": "fair_level elsewhere, where plans are not kept",
    "append_fair": "set_counters and append_at_once elsewhere",
    "limit_lock_waits": "SQLite has no locks of rows",
    "restore_lock_waits": "as above",
    "limit_waiting": "SQLite's one write lock keeps publishers out already",
    "write_results": "write_result for each row elsewhere, in one transaction",
    "store_and_count": "several statements elsewhere, in one transaction",
    "set_aside": "only PostgreSQL's publishers do not lock the queue, so that its end cannot see them",
    "lock_messages": "MariaDB's publishers hold the queue's name instead",
    "see_present": "as above",
    "definitions": "only SQLite's catalogue leaves out the names of unique constraints",
    "refused_sequences": "only PostgreSQL has sequences with privileges of their own",
    "hold_liveness_lock": "only PostgreSQL's locks end with the connection and can be looked at by others",
    "lock_disconnected": "as above",
    "shorten_deadlines": "as above",
    "claimable": "SQLite's one write lock is taken only to write",
    "lock_for_writing": "SQLite may refuse a deferred transaction the lock for good",
    "claim_chosen": "lock_chosen, lease and own_chosen elsewhere: no UPDATE returns rows there, or not in order",
    "lock_chosen": "the first part of claim_chosen",
    "own_chosen": "the last part of claim_chosen",
    "arriving": "SQLite has one writer, and its numbers are visible only after the commit",
    "finishing": "as above",
    "see_unfinished": "only MariaDB and MySQL show uncommitted rows; PostgreSQL names the writers",
    "see_committed": "as above",
    "lock_claims": "SQLite's one write lock is turn enough",
    "remember_finished": "the first half of settle_finished, or of drop_messages",
    "remember_removed": "the first half of remove, or of drop_messages",
    "give_back_held_by_expired": "the second half of release_held_by_expired",
    "mark_tail": "a sequence is never behind the ids in use",
    "change_marker": "only SQLite has one",
    "begin_look": "SQLite's driver ends statements, and a set of this process keeps a second look out",
    "end_look": "as above",
    "take_look": "PostgreSQL's lock is taken by begin_look, and ends with the transaction",
    "drop_look": "as above",
    "journal_mode": "only SQLite's may be off",
    # MariaDB and MySQL: rows are locked by one statement and written by another.
    "told": "renew returns it elsewhere",
    "written": "append_many returns the ids elsewhere",
    "hold_queues": "the second half of append's lock, for a statement that names many queues",
    "settle_finished": "lock_held, remember_finished and drop_messages there",
    "lock_held": "the first half of every settlement",
    "lock_given_back": "the first half of retake",
    "remove": "lock_unheld, remember_removed and drop_messages there",
    "lock_unheld": "the first half of each change of messages that are not claimed",
    "lock_to_change": "the first half of each change in place, which does not say there what it has changed",
    "drop_messages": "the last part of a settlement, a removal and a move",
    "promote_due": "due_queues, lock_due and make_ready there",
    "promote_all": "as above",
    "due_queues": "as above",
    "lock_due": "as above",
    "candidates": "the first part of claim_across elsewhere: no query there joins the heads of several queues",
    "longest_waiting": "a part of counts elsewhere: no subquery there with a limit reads for an outer row",
    "longest_arrived": "as above",
    "longest_due": "as above",
    "bodies": "the last part of a claim: the size of what it locks is not known before",
    "find_held_by_expired": "the first part of release_held_by_expired",
    "lock_held_by_expired": "the second",
    "stand_aside": "the first part of prioritise: there is no sequence to ask for an id",
    "volatile_drop": "the second half of volatile_take",
    "bound_statements": "limits are a matter of the session there, of the connection's options elsewhere",
    "waiting_limit": "limit_waiting answers with the limit before, elsewhere",
    "uptime": "a function of PostgreSQL's, and no matter to SQLite",
    "variables": "asks for the isolation of transactions, which is the same in each of the others",
}


#: Where what databases share is.
SHARED = "sql"
#: Each statement of each folder with its heading, by folder and name.
STATEMENTS = {
    f"{package}/{name}": text
    for package in (*PACKAGES, SHARED)
    for path in sorted((FOLDER / package / "sql").glob("*.sql"))
    for name, text in named(path.read_text())
}


def sent() -> Iterator[tuple[str, str]]:
    """Yield each statement of each database as it is sent, and its label."""
    for package in PACKAGES:
        for name in sorted(names_of(package)):
            yield f"{package}/{name}", statement(f"django_mq.stores.{package}", name, "NOW")


def names_of(package: str) -> set[str]:
    """The statements that a database has, its own or shared by all, without fragments."""
    labels = [label.split("/") for label in STATEMENTS]
    return {name for folder, name in labels if folder in {package, SHARED} and not name.startswith("_")}


def inserts() -> Iterator[tuple[str, str, set[str]]]:
    """Yield label, table and columns of every INSERT and COPY, once where several are alike."""
    seen = set[tuple[str, str]]()
    for label, text in sent():
        for table, columns in re.findall(r"(?:INSERT INTO|COPY) (\w+) \(([^)]*)\)", text):
            if (table, columns) not in seen:
                seen.add((table, columns))
                yield label, table, {name.strip() for name in columns.split(",")}


INSERTS = [pytest.param(table, columns, id=f"{label} into {table}") for label, table, columns in inserts()]


def columns_of(table: str) -> dict[str, Field]:  # type: ignore[type-arg]
    return {field.column: field for field in TABLES[table]._meta.local_concrete_fields}


@pytest.mark.parametrize(("table", "columns"), INSERTS)
def test_an_insert_names_columns_of_its_model(table: str, columns: set[str]) -> None:
    assert columns <= set(columns_of(table))


@pytest.mark.parametrize(("table", "columns"), INSERTS)
def test_an_insert_leaves_out_only_what_may_be_null(table: str, columns: set[str]) -> None:
    left_out = {name for name, field in columns_of(table).items() if not may_be_left_out(field)}

    # Django keeps a field's usual default out of the database, so that a row without it is refused.
    assert left_out <= columns


def may_be_left_out(field: Field) -> bool:  # type: ignore[type-arg]
    return field.null or field.primary_key or field.has_db_default()


def test_a_statement_names_tables_of_the_models() -> None:
    hint = re.compile(r"FORCE INDEX \(\w+\)")  # another test knows the indexes
    words = {label: set(re.findall(r"\bdjango_mq_\w+", hint.sub("", text))) for label, text in sent()}
    strange = {name: found - set(TABLES) - {IDLE, MINUTES, "django_mq_"} for name, found in words.items()}

    assert not {name: words for name, words in strange.items() if words}


def test_a_heading_names_indexes_that_exist() -> None:
    metas = [model._meta for model in TABLES.values()]
    known = {item.name for meta in metas for item in (*meta.indexes, *meta.constraints)} | set(TABLES)
    known |= {IDLE, f"{IDLE}_expires", f"{MINUTES}_once"}

    headings = {label: re.findall("^--.*", text, re.MULTILINE) for label, text in STATEMENTS.items()}
    strange = {
        label: set(re.findall(r"\bdjango_mq_\w+", "\n".join(lines))) - known for label, lines in headings.items()
    }

    assert not {name: words for name, words in strange.items() if words}


def test_the_folders_have_the_same_statements_but_for_reasons() -> None:
    names = [names_of(package) for package in PACKAGES]

    assert set.union(*names) - set.intersection(*names) == set(ONLY)


def test_every_index_of_the_hot_table_serves_a_statement() -> None:
    described = "\n".join(STATEMENTS.values())
    # Looking a message up by its correlation id is the admin's, not a store's.
    indexes = {index.name for index in TABLES["django_mq_message"]._meta.indexes} - {"django_mq_message_corr"}

    assert not [name for name in indexes if name.removeprefix("django_mq_message") not in described]
