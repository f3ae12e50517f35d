"""The examples of the pages are right: they run, or at least compile."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.api import browse, publish
from django_mq.delivery.consumer import handlers
from django_mq.delivery.consumer.worker import Worker
from django_mq.engine.states import DEAD, READY, SCHEDULED
from django_mq.seams.extension import Extension
from tests.docs.pages import DOCS, README, name, pages, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_django import Settings

#: Names that an example adds to: of a project's settings and URLs, of the file before, and of a Spark session.
GIVEN = [
    *("INSTALLED_APPS", "DATABASES", "BASE_DIR", "DJANGO_MQ"),
    *("urlpatterns", "path", "consumer", "spark", "frame", "stream"),
]
on_sqlite = pytest.mark.django_db(databases=["default"], transaction=True)


def execute(*texts: str, **given: Any) -> dict[str, Any]:
    """Run examples one after the other, as one module, and return its names."""
    module: dict[str, Any] = {"__name__": "tests.docs.example", **given}
    for text in texts:
        exec(text, module)
    return module


@pytest.fixture
def registered() -> Iterator[None]:
    """Forget the handlers that the examples register."""
    before = set(handlers.discover())
    yield
    for queue in set(handlers.discover()) - before:
        handlers.forget(queue)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_example_is_python_and_imports_what_there_is(page: Path) -> None:
    for text in python(page):
        imports = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))

        for node in imports:
            if node.module and node.module.startswith("django_mq"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def test_every_example_imports_the_names_that_it_uses(tmp_path: Path) -> None:
    for page in pages():
        for number, text in enumerate(python(page)):
            (tmp_path / f"{name(page).replace('/', '-')}-{number}.py").write_text(text)

    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise"]
    found = subprocess.run(
        [*ruff, "--config", f"builtins={GIVEN}", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert found.returncode == 0, found.stdout


def extension_module(page: Path, place: str) -> ModuleType:
    """Return the module as the page prints it, or with an extension that adds nothing."""
    module, file = ModuleType(place), f"# {place.replace('.', '/')}.py"
    module.EXTENSION = Extension(name="shop")  # type: ignore[attr-defined]
    for text in python(page):
        if text.startswith(file):
            exec(text, module.__dict__)
    return module


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_example_of_settings_can_be_loaded(
    page: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARDS_KEY", "a secret of the environment")
    module: dict[str, Any] = {
        "INSTALLED_APPS": [],
        "DATABASES": {"default": {}},
        "DJANGO_MQ": {},
        "BASE_DIR": DOCS,
    }
    for text in python(page):
        if "DJANGO_MQ" in text:
            module = execute(text, **module)
            # The other aliases of an example are no aliases of the tests.
            settings.DJANGO_MQ = {**module["DJANGO_MQ"], "DATABASE": "default", "LISTEN_DATABASE": None}
            for path in module["DJANGO_MQ"].get("EXTENSIONS", ()):
                file = extension_module(page, path.rpartition(".")[0])
                monkeypatch.setitem(sys.modules, file.__name__, file)

            assert set(conf.load().QUEUES) == set(module["DJANGO_MQ"].get("QUEUES", {}))


@on_sqlite
@pytest.mark.usefixtures("registered")
def test_the_readme_publishes_and_handles(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    (declaring,) = (text for text in python(README) if text.startswith("DJANGO_MQ"))
    (publishing,) = (text for text in python(README) if "def place" in text)
    (handling,) = (text for text in python(README) if "@consumer" in text)
    settings.DJANGO_MQ = execute(declaring)["DJANGO_MQ"]

    execute(publishing)["place"](SimpleNamespace(pk=7, save=lambda: None))
    execute(handling)
    Worker([handlers.handler_of("receipts")], threads=1).run(until_empty=True)

    assert capsys.readouterr().out == "receipt for order 7 attempt 1\n"


@on_sqlite
def test_messages_are_scheduled_and_prioritised_as_the_page_says(settings: Settings) -> None:
    examples = list(python(DOCS / "how-to/messages/schedule-and-prioritise.md"))
    (declaring,) = (text for text in examples if text.startswith("DJANGO_MQ"))
    settings.DJANGO_MQ = {"AUTO_DECLARE": True, **execute(declaring)["DJANGO_MQ"]}

    execute(*examples)

    assert len(list(browse("reminders", states=[SCHEDULED]))) == 3
    assert len(list(browse("offers"))) == 1
    assert [message.priority for message in browse("receipts", states=[READY])] == [9]
    assert [message.body["machine"] for message in browse("repairs")] == [2, 1]


@on_sqlite
def test_last_values_are_kept_as_the_page_says(settings: Settings) -> None:
    declaring, publishing = (
        text for text in python(DOCS / "how-to/queues/once-and-latest.md") if "prices" in text
    )
    settings.DJANGO_MQ = execute(declaring)["DJANGO_MQ"]

    execute(publishing, publish=publish)

    assert [message.body["price"] for message in browse("prices", states=[READY])] == [2]
    assert [message.body["price"] for message in browse("prices", states=[SCHEDULED])] == [3]


@on_sqlite
@pytest.mark.usefixtures("registered")
def test_handlers_choose_outcomes_as_the_page_says(settings: Settings) -> None:
    settings.DJANGO_MQ = {"QUEUES": {"receipts": {}}}
    page = python(DOCS / "how-to/messages/handle-messages.md")
    execute(next(text for text in page if "@consumer" in text))

    publish("receipts", {})
    Worker([handlers.handler_of("receipts")], threads=1).run(until_empty=True)

    (dead,) = browse("receipts", states=[DEAD])
    assert dead.dead_reason == "Reject: no order"


@on_sqlite
@pytest.mark.usefixtures("registered")
def test_a_handler_declines_as_the_page_says(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.DJANGO_MQ = {"QUEUES": {"archives": {}}}
    page = python(DOCS / "how-to/messages/several-handlers.md")
    execute(next(text for text in page if "Decline(" in text))
    publish("archives", {"path": str(tmp_path / "1.png")})

    Worker([handlers.handler_of("archives")], threads=1).run(until_empty=True)
    assert [message.attempts for message in browse("archives", states=[READY])] == [0]

    (tmp_path / "1.png").touch()
    Worker([handlers.handler_of("archives")], threads=1).run(until_empty=True)
    assert capsys.readouterr().out == "archived 1.png\n"
