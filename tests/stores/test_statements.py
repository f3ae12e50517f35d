"""The statements are fixed texts: values never enter them, and each says what it locks and returns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from django_mq import stores
from django_mq.stores import option_columns
from django_mq.stores.statements import PLACEHOLDER, statement

FOLDER = Path(stores.__file__).parent
PACKAGES = ("postgresql", "sqlite", "mysql")

pytestmark = pytest.mark.parametrize("package", PACKAGES)


def texts(package: str) -> dict[str, str]:
    """Every file that a database has, its own or shared by all, by name, fragments too."""
    folders = (FOLDER / "sql" / "sql", FOLDER / package / "sql")
    return {path.stem: path.read_text() for folder in folders for path in sorted(folder.glob("*.sql"))}


def statements(package: str) -> dict[str, str]:
    """The same without the fragments."""
    return {name: text for name, text in texts(package).items() if not name.startswith("_")}


def code_of(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def heading_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("--")]


def test_a_placeholder_stands_for_the_clock_columns_of_options_or_a_fragment(package: str) -> None:
    fragments = {name.removeprefix("_") for name in texts(package) if name.startswith("_")}
    known = fragments | {"now", *option_columns.texts()}

    strange = {name: set(PLACEHOLDER.findall(code_of(text))) - known for name, text in texts(package).items()}

    assert not {name: words for name, words in strange.items() if words}


def test_every_per_cent_sign_is_a_named_parameter_or_doubled(package: str) -> None:
    parameter = re.compile(r"%\(\w+\)s|%%")

    assert not [name for name, text in texts(package).items() if "%" in parameter.sub("", code_of(text))]


def test_no_parameter_stands_inside_quotes(package: str) -> None:
    quoted = {name: re.findall(r"'[^']*'", code_of(text)) for name, text in texts(package).items()}

    assert not [name for name, literals in quoted.items() if any("%(" in literal for literal in literals)]


def test_no_brace_is_left_over_when_a_statement_is_built(package: str) -> None:
    built = {name: statement(f"django_mq.stores.{package}", name, "NOW") for name in texts(package)}

    assert not [name for name, text in built.items() if set("{}") & set(text)]


def test_a_statement_says_what_it_locks_and_what_it_returns(package: str) -> None:
    silent = [
        (name, word)
        for name, text in statements(package).items()
        for word in ("-- Locks: ", "-- Returns: ")
        if not any(line.startswith(word) for line in heading_of(text))
    ]

    assert not silent


def test_a_file_holds_one_statement(package: str) -> None:
    assert not [name for name, text in texts(package).items() if ";" in code_of(text)]


def test_every_fragment_is_used(package: str) -> None:
    used = {word for text in texts(package).values() for word in PLACEHOLDER.findall(code_of(text))}

    assert {name.removeprefix("_") for name in texts(package) if name.startswith("_")} <= used


def test_every_statement_is_run_by_some_store(package: str) -> None:
    source = "".join(path.read_text() for path in FOLDER.rglob("*.py"))

    assert not [name for name in statements(package) if f'"{name}"' not in source]


def test_no_store_builds_sql_from_values(package: str) -> None:
    builder = re.compile(r"""f["'].*\b(SELECT|INSERT|UPDATE|DELETE|LOCK)\b|\.format\(""")

    assert not [path.name for path in (FOLDER / package).rglob("*.py") if builder.search(path.read_text())]


def test_a_name_without_a_file_is_a_programming_error(package: str) -> None:
    with pytest.raises(FileNotFoundError):
        statement(f"django_mq.stores.{package}", "no_such_statement", "NOW")


def test_no_locking_subquery_stands_where_it_could_be_asked_twice(package: str) -> None:
    again = re.compile(r"\bIN \([^;]*?FOR UPDATE", re.DOTALL)

    assert not [name for name, text in statements(package).items() if again.search(code_of(text))]


def test_a_statement_that_two_databases_share_is_written_once(package: str) -> None:
    own = {path.name: code_of(path.read_text()) for path in (FOLDER / package / "sql").glob("*.sql")}
    others = [FOLDER / other / "sql" for other in (*PACKAGES, "sql") if other != package]

    assert not [
        name
        for name, code in own.items()
        if any((other / name).exists() and code_of((other / name).read_text()) == code for other in others)
    ]
