"""Prose has no coined words and few pronouns, and promises no untested database (docs/contributing.md)."""

from __future__ import annotations

import re

from tests.architecture.prose import ROOT, lines

#: Words of this project alone, each with the term to use instead. Identifiers: test_words.py.
COINED = {
    "admitting": "limits",
    "behalf": "permission",
    "conduct|conducts": "worker command",
    "door|doors": "interface",
    "eldest|elder": "leader",
    "feeder|feeders": "fetcher",
    "ground|grounds": "environment",
    "handover|hand-over": "prefetch buffer, or delivery",
    "hasten|hastens|hastened|hastening": "shorten the deadline",
    "intake": "consumer runtime",
    "keeper|keepers": "heartbeat",
    "lane|lanes": "transient queues",
    "lapse|lapses|lapsed|lapsing": "expired",
    "obey|obeys|obeyed": "worker command, or follow",
    "onward|onwards": "from the cursor",
    "oversleep|oversleeps|overslept": "host suspended",
    "ownerless": "without an owner",
    "pump|pumps": "fetch",
    "ruled|ruling|rulings": "constrained, arbiter",
    "seat|seats": "consumer slot",
    "teller": "formatter",
    "trouble|troubles": "alert, or problem",
    "twin|twins": "JSON view",
    "upkeep": "maintenance",
    "whole look|whole looks": "full scan",
}
#: Lines with a pronoun, in code and texts, each about people. Lower the bound when the number falls.
MOST_PRONOUNS = 25
FOLDERS = ("django_mq", "docs", "tests", "example_project")
TEXTS = {".py", ".sql", ".lua", ".html", ".js", ".css", ".md", ".yml", ".toml", ".txt", ".po", ".json", ".sh"}
#: The changelog names old words, and the ids of stored scenarios stay.
NOT_COUNTED = ("docs/changelog.md", "docs/_build/", "tests/scenarios/data/", "tests/scenarios/stored/unfit.py")
PRONOUNS = re.compile(r"\b(who|whoever|whom|nobody|somebody|whatever)\b", re.IGNORECASE)


def test_prose_has_no_coined_words() -> None:
    any_word = re.compile(rf"\b({'|'.join(COINED)})\b", re.IGNORECASE)

    found = [f"{where}: {match[0]}: {line}" for where, line in lines() if (match := any_word.search(line))]

    assert found == [], COINED


def test_pronouns_are_few() -> None:
    files = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS}
    names = {str(path.relative_to(ROOT)): path for path in {*files, ROOT / "README.md"}}

    found = [
        f"{name}:{number}: {line.strip()}"
        for name, path in sorted(names.items())
        if not name.startswith(NOT_COUNTED)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if PRONOUNS.search(line)
    ]

    assert len(found) <= MOST_PRONOUNS, "\n".join(found)


def test_mysql_is_promised_nowhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]

    promising = [
        str(page.relative_to(ROOT))
        for page in pages
        if "MySQL" in (text := page.read_text()) and "untested" not in text
    ]

    assert promising == []
