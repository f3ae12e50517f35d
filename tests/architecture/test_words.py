"""Old words of this project do not come back: the field's terms have replaced them (docs/contributing.md)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import django_mq

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(django_mq.__file__).parent
#: Each with the term to use instead.
OLD = {
    "behalf": "permission",
    "chore": "duty",
    "chores": "duties",
    "eldest": "leader",
    "elder": "leader",
    "feeder": "fetcher",
    "handover": "prefetch buffer",
    "hasten": "shorten the deadline",
    "instruct": "worker command",
    "instructions": "worker command",
    "intake": "consumer runtime",
    "keeper": "heartbeat",
    "lapse": "expire",
    "lapsed": "expired",
    "letters": "outgoing messages, or dead letters",
    "obey": "worker command",
    "onward": "from the cursor",
    "oversleep": "host suspended",
    "pump": "fetch",
    "refusals": "errors",
    "ruled": "constrained",
    "seat": "consumer slot",
    "seats": "consumer slots",
    "standby": "idle registration",
    "teller": "formatter",
    "trouble": "alert",
    "troubles": "alerts",
    "twin": "JSON view",
    "upkeep": "maintenance",
}
#: Words that may stand before an old one and make another term of it.
COMPOUNDS = {("dead", "letters")}


def words(name: str) -> list[str]:
    """Split an identifier into its words, in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def old_words(name: str) -> list[str]:
    found = words(name)
    return [
        word
        for before, word in zip(["", *found], found, strict=False)
        if word in OLD and (before, word) not in COMPOUNDS
    ]


def names_in(path: Path) -> Iterator[str]:
    """Yield the names that a module defines, takes as arguments or uses, and its own."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def test_an_old_word_is_found_in_an_identifier() -> None:
    assert old_words("_run_upkeep") == ["upkeep"]
    assert old_words("KeeperThread") == ["keeper"]
    assert old_words("dead_letters") == []


def test_identifiers_have_no_old_words() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {name}: say {OLD[word]}"
        for path in PACKAGE.rglob("*.py")
        if "migrations" not in path.parts
        for name in names_in(path)
        for word in old_words(name)
    }

    assert sorted(found) == []


def test_statements_have_no_old_words() -> None:
    found = {
        f"{path.name}: {name}: say {OLD[word]}"
        for path in PACKAGE.rglob("*.sql")
        for name in re.findall(r"^-- name: (\w+)", path.read_text(), re.MULTILINE)
        for word in old_words(name)
    }

    assert sorted(found) == []


def test_the_glossary_has_no_old_words() -> None:
    text = (PACKAGE.parent / "docs" / "glossary.md").read_text()
    terms = re.findall(r"\*\*([^*]+)\*\*", text)

    assert [term for term in terms if OLD.keys() & set(re.findall(r"\w+", term.lower()))] == []


#: Names that two classes may have. The parts of the SQL stores and of the memory store do the same for a store.
#: A model is the row of what the engine has under the same name. Nested classes are named with their outer class.
SHARED = {
    *("Browser", "Claim", "Claims", "Maintenance", "Operations", "Part", "Publications", "Queues", "Sessions"),
    *("Admission", "Deletions", "Exchanges", "Parking", "Rates", "Retention", "Settlements", "UniqueKeys"),
    "VolatileMessages",
    *("Consumer", "Exchange", "Message", "Ownership", "Queue", "State"),
    *("Command", "Meta", "Status"),
}


def test_each_class_has_a_name_of_its_own() -> None:
    places: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if "migrations" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and node.name not in SHARED:
                    places.setdefault(node.name, set()).add(str(path.relative_to(PACKAGE)))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


#: What texts for users say in one way, each with the word to use (docs/glossary.md).
ONE_WORD = {
    r"(?<!and )(?<!, )\bdead messages?\b": "dead letter",
    r"\bfailed messages?\b": "failed attempt, or dead letter",
    r"\bfailed executions?\b": "failed attempt",
    r"\bexecutions? of\b": "run, or attempt",
    r"\bbackground (actions?|jobs?|tasks?)\b": "operation",
    r"\b(actions? of|an) operators?'? actions?\b": "act",
    r"(?<!\")\bhistory (list|page)\b": "finished messages",
    r"\bsubscribers?\b(?!`)": "consumer",
    r"\bconsumer process(es)?\b": "worker",
    r"\bin-flight\b": "in flight",
    r"\bincidents?\b": "alert",
}
DOCS = PACKAGE.parent / "docs"
#: The list of the words itself, notes of the past, and what other projects call it.
NOT_READ = ("glossary.md", "changelog.md", "decisions", "benchmarks", "contributing.md", "_build")


def texts_of_users() -> Iterator[tuple[str, str]]:
    """Yield the texts of the admin and the lines of the documentation, after their places."""
    catalog = (PACKAGE / "locale/de/LC_MESSAGES/django.po").read_text()
    for text in re.findall(r'^msgid(?:_plural)? ((?:".*"\n)+)', catalog, re.MULTILINE):
        yield "django.po", "".join(re.findall(r'"(.*)"', text))
    for path in sorted(DOCS.rglob("*.md")):
        if not str(path.relative_to(DOCS)).startswith(NOT_READ):
            yield from (
                (f"{path.relative_to(DOCS)}:{n}", line) for n, line in enumerate(path.read_text().splitlines(), 1)
            )


def test_texts_have_one_word_for_one_thing() -> None:
    found = [
        f"{where}: {text.strip()[:200]}: say {word}"
        for where, text in texts_of_users()
        for pattern, word in ONE_WORD.items()
        if re.search(pattern, text, re.IGNORECASE)
    ]

    assert found == []


def test_history_is_no_label_of_ours() -> None:
    labels = {text for where, text in texts_of_users() if where == "django.po"}

    assert not labels & {"History", "history"}
