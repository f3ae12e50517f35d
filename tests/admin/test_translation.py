"""Every word of the pages can be had in German, and the rest of the pages are fit for any language."""

from __future__ import annotations

import ast
import gettext
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import django_mq
from django_mq.models import Message
from tests.admin.conftest import list_of, page_of, run_action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

PACKAGE = Path(django_mq.__file__).parent
CATALOG = PACKAGE / "locale/de/LC_MESSAGES/django.mo"
TRANSLATE = re.compile(r"{% translate \"([^\"]+)\"")
#: German words that stood for what another word stands for, each with the one to use.
ONE_WORD = {
    r"\b[Uu]nzustellbar|\btote[rn]? Brief": "Dead Letter",
    r"\bKonsument": "Consumer",
    r"\bSender": "Publisher",
    r"\b[Gg]escheitert|\b[Gg]elungen": "fehlgeschlagen, erfolgreich",
    r"\bKommando": "Befehl",
    r"\bHerzschl[aä]g": "Heartbeat",
    r"\bGrenze|\bkeine Grenze": "Limit",
    r"\bPlätze\b": "Slots",
    r"\bMeldung": "Alarm",
    r"\bTask\b.*\beiner Task\b|\b[Dd]ie Task\b": "der Task",
    r"\bfertig": "beendet",
    r"\bSuche nach": "Suchen Sie nach",
    r"(?<!des )\bWorkers\b": "Worker",
    r"\bId\b": "ID",
    r"[“\"](?![^%{<]*[}>])\w": "„…“",
}
#: Arguments of these functions are translated; of the last one, two are.
FUNCTIONS = {"_", "gettext", "gettext_lazy", "ngettext"}


def words_of_code() -> Iterator[str]:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
                for argument in node.args[: 2 if node.func.id == "ngettext" else 1]:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        yield argument.value


def words_of_templates() -> Iterator[str]:
    for file in PACKAGE.rglob("*.html"):
        # As Django looks them up.
        yield from (word.replace("%", "%%") for word in TRANSLATE.findall(file.read_text(encoding="utf-8")))


@pytest.fixture
def german() -> set[str]:
    """What the catalogue translates. Its entries with a plural are found by the number, too."""
    with CATALOG.open("rb") as file:
        catalog = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    found = {key[0] if isinstance(key, tuple) else key for key, value in catalog.items() if value}
    plurals = set(
        re.findall(r'^msgid_plural "(.+)"$', CATALOG.with_suffix(".po").read_text("utf-8"), re.MULTILINE)
    )
    return found | {text.encode().decode("unicode_escape").encode("latin-1").decode() for text in plurals}


def test_every_word_is_in_the_german_catalogue(german: set[str]) -> None:
    words = {*words_of_code(), *words_of_templates()}

    assert len(words) > 300
    assert sorted(words - german) == []


def test_placeholders_survive_the_translation() -> None:
    text = CATALOG.with_suffix(".po").read_text(encoding="utf-8")
    pairs = re.findall(r'^msgid "(.+)"\nmsgstr "(.*)"$', text, re.MULTILINE)
    holder = re.compile(r"%\(\w+\)[sd]|%[sd]")

    assert len(pairs) > 300
    assert [
        source for source, target in pairs if sorted(holder.findall(source)) != sorted(holder.findall(target))
    ] == []


def test_german_has_one_word_for_one_thing() -> None:
    with CATALOG.open("rb") as file:
        texts = [text for text in gettext.GNUTranslations(file)._catalog.values() if text]  # type: ignore[attr-defined]

    found = [
        f"{text}: write {word}"
        for text in texts
        for pattern, word in ONE_WORD.items()
        if re.search(pattern, text) and "Content-Type" not in text
    ]

    assert found == []


def test_the_pages_speak_german(site: str, browse: Client, make: Make, settings: Settings) -> None:
    settings.LANGUAGE_CODE = "de"
    dead = make.message(Message.Status.DEAD)

    overview = browse.get(f"{list_of('queue')}overview/").content.decode()
    asked = run_action(browse, "queue", "purge", [dead.queue]).content.decode()
    page = browse.get(page_of(dead)).content.decode()

    assert "Übersicht" in overview
    assert "0 Worker leben" in overview
    assert "Nur die Historie erinnert sich" in asked
    assert "„purge“ eintippen" in asked
    assert "Erneut zustellen" in page
