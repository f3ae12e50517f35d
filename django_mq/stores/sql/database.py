"""One connection of a database: its named statements and its transactions."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from django.db import transaction

from django_mq.engine.options import MEMORY_OPTIONS, OPTIONS, OTHERS, added_in, others_in
from django_mq.stores.clock import clock
from django_mq.stores.connections import has_ended, lock_of, translating
from django_mq.stores.errors import unsupported
from django_mq.stores.subjects.database import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from django.db.backends.base.base import BaseDatabaseWrapper


Rows: TypeAlias = list[tuple[Any, ...]]
#: The name of a statement and its parameters.
Statement: TypeAlias = tuple[str, dict[str, Any]]


def first_of(rows: Rows) -> list[Any]:
    return [row[0] for row in rows]


NO_PARAMS: Mapping[str, Any] = MappingProxyType({})


class Asking(Protocol):
    """Run statements that need no answers of each other; the last of a transaction may say so."""

    def __call__(self, statements: Sequence[Statement], *, is_last: bool = False) -> list[Rows]: ...


class Database(Connection):
    """Runs the statements of a package over one connection."""

    #: The package whose ``sql`` folder holds the statements.
    package: ClassVar[str]
    #: How a transaction of a private connection begins.
    begin: ClassVar[str] = "BEGIN"
    #: A comment before each statement, by which the server tells a worker's connection from others.
    mark: str = ""
    #: Added to the database's clock for this store; only tests set it.
    clock_offset = timedelta(0)
    #: Whether a transaction of a private connection is open.
    begun = False
    #: How many blocks of ``transaction`` are open; what to do at the end of the first, and how to forget it.
    blocks = 0
    #: How many blocks of ``savepoint`` are open.
    savepoints = 0
    ending: tuple[Callable[[], None], Callable[[], None]] | None = None

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        self.connection = connection
        self.alias: str = connection.alias
        self.private = private
        #: What to call when the transaction of a private connection has committed.
        self.committing: list[Callable[[], None]] = []

    def offset(self) -> timedelta:
        """Return what is added to the database's clock: nothing, except in tests."""
        return self.clock_offset + clock.offset

    def now(self) -> str:
        """Return the one time expression of the statements."""
        raise NotImplementedError

    def text(self, name: str, params: Mapping[str, Any] = NO_PARAMS) -> str:
        forms = {"declared": "meets" in params, "placed": "place" in params, "alone": params.get("alone", False)}
        forms["resumed"] = name == "facts" and "levels" in params
        return statement(self.package, name, self.now(), params.get("wanted", ""), **forms, mark=self.mark)

    def fitted(self, params: dict[str, Any]) -> dict[str, Any]:
        return params

    def rows(self, name: str, /, **params: Any) -> Rows:
        return self.run(name, self.fitted(params))

    def insert(self, name: str, /, **params: Any) -> Rows:
        """Run a statement that writes rows; return none if one of them exists already."""
        return self.rows(name, **params)

    def insert_many(self, name: str, every: Sequence[dict[str, Any]]) -> None:
        """Run a statement that writes a row for each of these parameters, in few round trips."""
        fitted = [self.fitted(params) for params in every]
        if fitted:
            with self.alone(), translating(self.connection), self.cursor() as cursor:
                cursor.executemany(self.text(name, fitted[0]), fitted)

    def run(self, name: str, fitted: dict[str, Any]) -> Rows:
        with self.alone(), translating(self.connection), self.cursor() as cursor:
            cursor.execute(self.text(name, fitted), fitted)
            return cursor.fetchall() if cursor.description else []

    def cursor(self) -> Any:
        """Return a cursor whose times are in UTC or aware, with or without ``USE_TZ``."""
        return self.connection.cursor()

    def fetch(self, query: str, params: Sequence[Any]) -> Rows:
        with self.alone(), translating(self.connection), self.connection.cursor() as cursor:
            cursor.execute(query, params)
            return list(cursor.fetchall())

    def plan(self, text: str) -> list[str]:
        """Return the lines of the plan of a statement, which does not run; none if the database makes no plan."""
        first = text.split(maxsplit=1)[0].lstrip("(")
        with self.alone(), translating(self.connection):
            return self._plan(text) if first in PLANNED else []

    def _plan(self, text: str) -> list[str]:
        raise NotImplementedError

    @property
    def is_watched(self) -> bool:
        """Whether the project wraps or logs the statements of cursors, and so must see each of them."""
        return bool(self.connection.execute_wrappers or self.connection.queries_logged)

    def alone(self) -> AbstractContextManager[object]:
        """Keep other threads, and harmful forks, away from a private connection."""
        return lock_of(self.connection) if self.private else nullcontext()

    # Transactions.

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: a savepoint of the caller's transaction, or a transaction of its own."""
        atomic = self._own_transaction() if self.private else self._shared_transaction()
        with self.alone(), translating(self.connection), atomic:
            self.blocks += 1
            try:
                yield
                while self.blocks == 1 and self.ending is not None:
                    (end, _), self.ending = self.ending, None
                    end()
            except BaseException:
                if self.ending is not None:
                    (_, forget), self.ending = self.ending, None
                    forget()
                self.committing.clear()
                raise
            finally:
                self.blocks -= 1
        note_commit(self)

    @contextmanager
    def conversation(self) -> Iterator[Asking]:
        with self.transaction():
            yield self.each

    def each(self, statements: Sequence[Statement], *, is_last: bool = False) -> list[Rows]:  # noqa: ARG002 - it ends with its block
        return [self.rows(name, **params) for name, params in statements]

    def _shared_transaction(self) -> AbstractContextManager[None]:
        return transaction.atomic(using=self.connection.alias)

    @contextmanager
    def _own_transaction(self) -> Iterator[None]:
        # transaction.atomic looks connections up by alias, where a private one is not.
        if self.begun:
            yield
            return
        self.begun = True
        try:
            self.execute(self.begin)
            yield
            self.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise
        finally:
            self.begun = False

    def execute(self, text: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(text)

    @contextmanager
    def closing_if_failed(self) -> Iterator[None]:
        """Let the next statement of a worker open another connection, as after any failed transaction."""
        try:
            yield
        except BaseException:
            if self.private and not self.begun:
                self.connection.close()
            raise

    def roll_back(self) -> None:
        """Undo the open transaction; a connection that cannot do that is closed."""
        try:
            self.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - the connection is beyond use; the first error is the one to report
            self.connection.close()

    @property
    def in_transaction(self) -> bool:
        opened = self.connection.connection is not None
        commits_each = self.connection.autocommit if opened else self.connection.settings_dict["AUTOCOMMIT"]
        return bool(self.connection.in_atomic_block) or not commits_each

    @property
    def in_test(self) -> bool:
        blocks: list[Any] = self.connection.atomic_blocks
        return bool(blocks) and bool(blocks[0]._from_testcase)  # noqa: SLF001 - as Django's durable blocks

    def after_commit(self, callback: Callable[[], None]) -> None:
        if self.private and self.begun:
            self.committing.append(callback)
        elif self.connection.in_atomic_block:
            transaction.on_commit(callback, using=self.connection.alias, robust=True)
        elif not self.in_transaction:
            callback()

    def last_after_commit(self) -> Callable[[], None] | None:
        waiting = self.connection.run_on_commit
        return waiting[-1][1] if waiting else None

    # The connection.

    def bound_lock_waits(self, seconds: float) -> None:
        """Do nothing: no statement waits longer."""

    def answering_within(self, seconds: float) -> AbstractContextManager[None]:  # noqa: ARG002 - it cannot change
        return nullcontext()

    def reset_connection(self) -> bool:
        return False

    def change_marker(self) -> int | None:
        return None

    def disconnect(self) -> bool:
        if self.in_transaction:
            return False
        self.connection.close()
        return True

    def reconnect(self) -> bool:
        # ``errors_occurred`` of Django does not tell. A connection that still works has locks, temporary tables
        # and variables of the caller.
        with self.alone():
            is_open = self.connection.connection is not None
            if not is_open or self.begun or self.in_transaction or self.connection.is_usable():
                return False
            return self.disconnect()

    def reconnect_if_ended(self) -> bool:
        with self.alone():
            driver = self.connection.connection
            return driver is not None and has_ended(driver) and self.reconnect()

    def close(self) -> None:
        if self.private:
            with self.alone():
                self.begun = False
                self.connection.close()


def note_commit(database: Database) -> None:
    """Call what waits for the commit, unless a transaction of this private connection is still open."""
    while database.committing and not database.begun:
        database.committing.pop(0)()


@dataclass(eq=False)
class Part:
    """The methods of a store for one subject. Its fields are the other parts that it calls."""

    database: Database

    def __post_init__(self) -> None:
        self.rows = self.database.rows


# Statements are kept by subject: ``claim.sql`` has all that a claim runs.
#
# A statement begins with a line ``-- name: claim.`` and its comment: what it locks, which index serves it,
# what it returns. ``stores/sql/sql`` has what databases share; the folder of a database has its own form of the
# others. ``{now}`` in a statement stands for the store's one time expression, ``{option_columns}`` and its like
# for columns of a queue's options, ``{name}`` for the fragment ``_name``, and ``{name:argument}`` for that
# fragment with the argument in place of its ``{it}``. Values never enter the text: they are always parameters.
#
# An option that is another queue is an id in the database, and a name everywhere else. Options without a column
# are one text of JSON; NULL says that all have their defaults. Unknown options of another version stay there.

#: The package whose ``sql`` folder has what all databases share.
SHARED = "django_mq.stores.sql"
#: The only thing that is replaced in a statement's text; its argument may have placeholders, too.
PLACEHOLDER = re.compile(r"\{(\w+)(?::((?:[^{}]|\{[^{}]*\})*))?\}")
#: A parameter in a statement's text.
PARAMETER = re.compile(r"%\((\w+)\)s")
#: The first words of the statements that databases plan.
PLANNED = {"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"}
#: The first line of a statement; its comment may begin there.
HEADING = re.compile(r"^-- name: (\w+)", re.MULTILINE)


@lru_cache(maxsize=4096)
def statement(
    package: str,
    name: str,
    now: str,
    wanted: str = "",
    *,
    declared: bool = False,
    placed: bool = False,
    alone: bool = False,
    resumed: bool = False,
    mark: str = "",
) -> str:
    """Return the text of ``name`` for the database of ``package``, placeholders filled, comments dropped.

    A claim has forms. ``wanted`` is its condition by selectors, ``declared`` says that their queue declares some,
    ``alone`` that it settles nothing, ``resumed`` that the facts begin at the session's cursor. A publish has
    one: ``placed`` says that messages come with their places. ``_name_wanted``, or the like, takes the place of
    ``_name``. The text begins with ``mark``. Its lines are not indented: psycopg parses a text of more than 4096
    characters each time.

    Raises LookupError for a name or placeholder without a heading, and ValueError for a heading that stands twice
    in a folder or has no text: programming errors.
    """
    text = readable(package, name, now, wanted, declared=declared, placed=placed, alone=alone, resumed=resumed)
    return mark + "\n".join(line.strip() for line in text.splitlines())


def readable(
    package: str,
    name: str,
    now: str,
    wanted: str = "",
    *,
    declared: bool = False,
    placed: bool = False,
    alone: bool = False,
    resumed: bool = False,
) -> str:
    """Return the same text as it is read: its lines are indented. Raises the same errors."""
    texts = _defined(SHARED) | _defined(package)
    forms = {"_wanted": wanted, "_declared": wanted and declared, "_placed": placed, "_alone": alone}
    forms["_resumed"] = resumed
    for suffix in [suffix for suffix, holds in forms.items() if holds]:
        chosen = [name for name in texts if name.startswith("_") and name.endswith(suffix)]
        texts |= {name.removesuffix(suffix): texts[name] for name in chosen}
    if wanted:
        texts["_wanted"] = wanted
    if name not in texts:
        raise LookupError(f"{package} has no statement {name}, nor has {SHARED}.")
    return _filled(texts, texts[name], {"now": now, **option_texts()}, f"{package}, {name}").strip()


def names_of(package: str) -> list[str]:
    """Return the names of all statements of a database, its own and those that databases share."""
    return sorted(name for name in _written(SHARED) | _written(package) if not name.startswith("_"))


def heading_of(package: str, name: str) -> str:
    """Return the comment of a statement: what it does, what it locks, which index serves it, what it returns."""
    text = (_written(SHARED) | _written(package))[name]
    return "\n".join(line for line in text.splitlines() if line.startswith("--"))


def _filled(texts: Mapping[str, str], text: str, given: Mapping[str, str], place: str) -> str:
    def fill(match: re.Match[str]) -> str:
        word, argument = match.groups(default="")
        if word in given:
            return given[word]
        if (fragment := f"_{word}") not in texts:
            raise LookupError(f"{place}: no heading defines {fragment}, for {match[0]}.")
        found = _filled(texts, texts[fragment].replace("{it}", argument), given, f"{place}, {fragment}")
        line = text[: match.start()].rpartition("\n")[-1]
        return found.replace("\n", "\n" + line[: len(line) - len(line.lstrip())])

    return PLACEHOLDER.sub(fill, text)


@cache
def _defined(package: str) -> dict[str, str]:
    """Return the texts of a package's folder by name, without comments."""
    return {name: code_of(text) for name, text in _written(package).items()}


@cache
def _written(package: str) -> dict[str, str]:
    """Return the texts of a package's folder by name, as they are written."""
    texts: dict[str, str] = {}
    found = [file for file in (files(package) / "sql").iterdir() if file.name.endswith(".sql")]
    for file in sorted(found, key=lambda file: file.name):
        content, place = file.read_text(encoding="utf-8"), f"{package}, {file.name}"
        if not HEADING.match(content):
            raise ValueError(f"{place}: the first line names no statement.")
        for name, text in named(content):
            if name in texts:
                raise ValueError(f"{place}: {name} is defined twice in this folder.")
            texts[name] = text
            # A fragment may be empty for some databases: then its comment says why.
            if not code_of(text) and not (name.startswith("_") and HEADING.sub("", text).strip(" .")):
                raise ValueError(f"{place}: nothing stands under {name}.")
    return texts


def named(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name of a file with its text, which begins with the heading."""
    starts = [*HEADING.finditer(text)]
    for start, end in zip(starts, [*(match.start() for match in starts[1:]), len(text)], strict=True):
        yield start[1], text[start.start() : end].rstrip()


def code_of(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


#: The options that have a column of their own, and the column of all others.
OWN = [option for option in OPTIONS.values() if option.column is not None]
OTHER = "other_options"
#: How a statement writes, and reads, an option that is another queue.
LINK = "(SELECT id FROM django_mq_queue WHERE name = {})"
LINKED = "(SELECT o.name FROM django_mq_queue o WHERE o.id = {})"


@cache
def option_texts() -> dict[str, str]:
    """Return the texts of ``{option_columns}``, ``{option_values}`` and ``{option_reads}``."""
    values = [(LINK if option.is_link else "{}").format(f"%({option.name})s") for option in OWN]
    reads = [(LINKED if option.is_link else "{}").format(f"q.{option.column}") for option in OWN]
    return {
        "option_columns": ", ".join([*(str(option.column) for option in OWN), OTHER]),
        "option_values": ", ".join([*values, f"%({OTHER})s"]),
        "option_reads": ", ".join([*reads, f"q.{OTHER}"]),
    }


def options_written(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a statement with ``{option_values}``.

    Raises UnsupportedRule for an option that only queues in memory have.
    """
    for name, option in MEMORY_OPTIONS.items():
        if options.get(name, option.default) != option.default:
            raise unsupported(f"the option {name} of a queue")
    others = {name: options[name] for name in OTHERS if options[name] != OPTIONS[name].default}
    others |= {name: options[name] for name in options.keys() - OPTIONS.keys() - MEMORY_OPTIONS.keys()}
    own = {option.name: options[option.name] for option in OWN}
    return own | {OTHER: json.dumps(others) if others else None}


def options_read(values: Sequence[Any]) -> dict[str, Any]:
    """Return the options by name from the columns that ``{option_reads}`` names."""
    *own, other = values
    pairs = zip(OWN, own, strict=True)
    # Some databases store true as 1.
    found = {option.name: bool(value) if option.base_type == "bool" else value for option, value in pairs}
    stored = json.loads(other) if other else None
    return found | others_in(stored) | {"added": added_in(stored)}
