"""The statements are fixed texts: values never enter them, and each says what it locks and returns."""

from __future__ import annotations

import re
import sys
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from django_mq import stores
from django_mq.engine.selector import Selector
from django_mq.stores.sql.conditions import PROPERTIES, condition_of
from django_mq.stores.sql.database import PLACEHOLDER, code_of, named, statement

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(stores.__file__).parent
PACKAGES = ("postgresql", "sqlite", "mysql")
FOLDERS = ("sql", *PACKAGES)
#: A selector with all that is translated, and its condition.
SELECTOR = "a = AMQSize OR a = 'x' OR a = 1 OR NOT a OR 1 LIKE 'x' OR a LIKE 'x' OR " + " OR ".join(
    f"{name} IS NULL" for name in PROPERTIES
)
#: What Python adds to statements: a condition, for several handlers one for each position.
CONDITION = "{position} " + condition_of((Selector(SELECTOR),), "orders", "w").text  # type: ignore[union-attr]


@cache
def texts(folder: str) -> dict[str, str]:
    """Every statement and fragment of a folder by name, with its heading."""
    files = sorted((FOLDER / folder / "sql").glob("*.sql"))
    return {name: text for file in files for name, text in named(file.read_text())}


def known(package: str) -> dict[str, str]:
    """What a database has, its own or shared by all."""
    return texts("sql") | texts(package)


def built(package: str, name: str) -> str:
    return statement(f"django_mq.stores.{package}", name, "NOW")


every_package = pytest.mark.parametrize("package", PACKAGES)


def statements(package: str) -> Iterator[tuple[str, str]]:
    """What a store can run, as it is sent."""
    yield from ((name, built(package, name)) for name in known(package) if not name.startswith("_"))


@every_package
def test_every_statement_can_be_built_and_no_brace_is_left_over(package: str) -> None:
    assert not [name for name, text in statements(package) if set("{}") & set(text)]


@every_package
def test_every_per_cent_sign_is_a_named_parameter_or_doubled(package: str) -> None:
    parameter = re.compile(r"%\(\w+\)s|%%")

    assert not [name for name, text in statements(package) if "%" in parameter.sub("", text)]


@every_package
def test_no_parameter_stands_inside_quotes(package: str) -> None:
    quoted = {name: re.findall(r"'[^']*'", text) for name, text in statements(package)}

    assert not [name for name, literals in quoted.items() if any("%(" in literal for literal in literals)]


#: What must take one round trip, after each attempt.
SEVERAL = {"reset_connection"}


@every_package
def test_a_name_is_one_statement(package: str) -> None:
    assert not [name for name, text in statements(package) if ";" in text and name not in SEVERAL]


@every_package
def test_no_locking_subquery_stands_where_it_could_be_asked_twice(package: str) -> None:
    assert not [
        name for name, text in statements(package) if any("FOR UPDATE" in inner for inner in asked_in(text))
    ]


def asked_in(text: str) -> Iterator[str]:
    """What stands in the parentheses of each IN."""
    for start in re.finditer(r"\bIN \(", text):
        depths = accumulate({"(": 1, ")": -1}.get(character, 0) for character in text[start.end() - 1 :])
        yield text[start.end() : start.end() - 1 + next(end for end, depth in enumerate(depths) if depth == 0)]


@every_package
def test_every_statement_is_run_by_a_store_a_notifier_or_a_room(package: str) -> None:
    rooms = [FOLDER, *(FOLDER.parent / name for name in ("notifications", "batches", "durable", "replies"))]
    callers = [path for room in rooms for path in room.rglob("*.py")]
    source = "".join(path.read_text() for path in callers)

    assert not [name for name, _ in statements(package) if f'"{name}"' not in source]


@every_package
def test_every_fragment_is_used(package: str) -> None:
    used = {word for text in [*known(package).values(), CONDITION] for word in words_in(code_of(text))}

    assert fragments(package) <= used


def test_every_shared_fragment_is_used() -> None:
    statements = [text for folder in FOLDERS for text in texts(folder).values()]
    used = {word for text in [*statements, CONDITION] for word in words_in(code_of(text))}

    assert fragments("sql") <= used


def fragments(folder: str) -> set[str]:
    """The names of a folder's fragments; a claim by selectors has some in place of others."""
    return {word for name in texts(folder) if (word := fragment_of(name))}


def fragment_of(name: str) -> str | None:
    """The word for which a fragment stands, in whichever form of a claim."""
    return re.sub("_(wanted|declared|alone|placed|resumed)$", "", name[1:]) if name.startswith("_") else None


def words_in(text: str) -> Iterator[str]:
    """The placeholders of a text, and those in their arguments."""
    for word, argument in PLACEHOLDER.findall(text):
        yield word
        yield from words_in(argument)


@every_package
def test_a_claim_is_read_from_top_to_bottom(package: str) -> None:
    """A part with lines of its own has at most one more in it; a word for an expression is no part."""
    claims = [name for name in known(package) if name.startswith("claim")]

    assert {name: depth for name in claims if (depth := depth_of(package, name)) > 2} == {}


def depth_of(package: str, name: str) -> int:
    """How deep the fragments of a statement that have several lines lie in each other, in any of its forms."""
    used = set(words_in(code_of(known(package)[name])))
    parts = [part for part, text in known(package).items() if fragment_of(part) in used and "\n" in code_of(text)]
    return max((1 + depth_of(package, part) for part in parts), default=0)


@every_package
def test_no_store_builds_sql_from_values(package: str) -> None:
    builder = re.compile(r"""f["'].*\b(SELECT|INSERT|UPDATE|DELETE|LOCK)\b|\.format\(""")

    assert not [path.name for path in (FOLDER / package).rglob("*.py") if builder.search(path.read_text())]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_heading_says_what_its_statement_locks_and_returns(folder: str) -> None:
    headings = {
        name: [line for line in text.splitlines() if line.startswith("--")] for name, text in texts(folder).items()
    }

    assert not [
        name
        for name, lines in headings.items()
        if not name.startswith("_")
        and not (any(line.startswith("-- Locks: ") for line in lines) and "Returns:" in " ".join(lines))
    ]


def test_no_text_is_written_twice() -> None:
    found: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for name, text in texts(folder).items():
            found.setdefault(" ".join(code_of(text).split()), []).append(f"{folder}: {name}")

    assert not [places for text, places in found.items() if text and len(places) > 1]


def test_every_folder_keeps_to_the_subjects_of_the_shared_one() -> None:
    subjects = {file.name for file in (FOLDER / "sql" / "sql").iterdir()}
    subjects.add("hints.sql")  # only PostgreSQL notifies sessions

    assert not {file.name for folder in FOLDERS for file in (FOLDER / folder / "sql").iterdir()} - subjects


@every_package
def test_a_name_without_a_heading_is_a_programming_error(package: str) -> None:
    with pytest.raises(LookupError, match="has no statement no_such_statement"):
        built(package, "no_such_statement")


@pytest.fixture
def package_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A package with one file of SQL, the test's parameter."""
    name = f"statements_{abs(hash(request.node.name))}"
    (tmp_path / name / "sql").mkdir(parents=True)
    (tmp_path / name / "__init__.py").touch()
    (tmp_path / name / "sql" / "claim.sql").write_text(request.param)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, name, __import__(name))
    return name


GOOD = """-- name: _one. A fragment.
the {it}
-- name: _none. Nothing to say here.

-- name: first. Reads {one}
-- Locks: nothing.
SELECT {one:first of {now}}, {none}
FROM {paused}
"""


@pytest.mark.parametrize("package_of", [GOOD], indirect=True)
def test_a_placeholder_stands_for_a_fragment_with_its_argument_in_it(package_of: str) -> None:
    text = statement(package_of, "first", "NOW")

    assert text.startswith("SELECT the first of NOW,\nFROM (q.paused AND")
    assert "--" not in text


WRONG = {
    "-- name: a. One.\nSELECT 1\n-- name: a. Two.\nSELECT 2\n": (ValueError, "claim.sql: a is defined twice"),
    "-- name: a. One.\n-- Locks: nothing.\n": (ValueError, "claim.sql: nothing stands under a"),
    "-- name: _a\n\n-- name: a. One.\nSELECT 1\n": (ValueError, "claim.sql: nothing stands under _a"),
    "-- name: a. One.\nSELECT {nowhere}\n": (LookupError, "a: no heading defines _nowhere"),
    "SELECT 0\n-- name: a. One.\nSELECT 1\n": (ValueError, "claim.sql: the first line names no statement"),
}


@pytest.mark.parametrize(
    ("package_of", "error", "sentence"), [(text, *said) for text, said in WRONG.items()], indirect=["package_of"]
)
def test_a_file_that_is_wrong_says_what_and_where(package_of: str, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        statement(package_of, "a", "NOW")
