"""Every coded check: what triggers it, and the hint that says how to mend it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from django.core import checks
from django.core.management import call_command
from django.db import connections

from django_mq.api import publish
from django_mq.checks import check_database, check_handlers, check_settings
from django_mq.delivery.consumer.handlers import consumer, forget
from django_mq.delivery.queues import declare
from django_mq.errors import DriverMissing
from django_mq.integrations.celery.checks import check_broker_url, check_result_backend
from django_mq.stores import registry
from django_mq.stores.registry import shared_store
from tests.conftest import ALIASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_django import Settings


def ids(found: list[checks.CheckMessage]) -> list[str | None]:
    return [message.id for message in found]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (None, "django_mq.E001"),
        ({"QUEUES": []}, "django_mq.E001"),
        ({"DATABSE": "default"}, "django_mq.E002"),
        ({"QUEUES": {"orders": {"lvels": 3}}}, "django_mq.E002"),
        ({"DATABASE": "elsewhere"}, "django_mq.E003"),
        ({"QUEUES": {"orders": {"levels": "three"}}}, "django_mq.E003"),
        ({"MASK": "password"}, "django_mq.E003"),
        ({"MASK": ["password", 7]}, "django_mq.E003"),
        ({"MASK": "shop.nowhere.seen"}, "django_mq.E007"),
        ({"MASK": "django_mq.__version__"}, "django_mq.E007"),
        ({"QUEUES": {"orders": {"nondestructive": True}}}, "django_mq.W003"),
    ],
)
def test_wrong_settings_are_an_error_with_a_hint(settings: Settings, given: Any, code: str) -> None:
    settings.DJANGO_MQ = given

    found = check_settings()

    assert ids(found) == [code]
    assert found[0].hint


@pytest.mark.parametrize(
    "url", ["django_mq://", "djangomq://", "django-mq:/", "Django-MQ://", "django-mq:default", "django-mq"]
)
def test_a_broker_url_that_is_nearly_right_is_an_error_that_says_what_to_write(
    settings: Settings, url: str
) -> None:
    settings.CELERY_BROKER_URL = url

    [found] = check_broker_url()

    assert found.id == "django_mq.E010"
    assert "CELERY_BROKER_URL" in found.msg
    assert "django-mq://" in str(found.hint)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("django-mq://default", "write django-mq:///default"),
        ("django-mq:///nowhere", "There is no database alias 'nowhere'"),
        ("django-mq://?queue_oder=listed", "Unknown options in the broker URL: queue_oder"),
    ],
)
def test_a_broker_url_that_the_transport_refuses_is_an_error(settings: Settings, url: str, sentence: str) -> None:
    settings.CELERY_BROKER_URL = url

    [found] = check_broker_url()

    assert found.id == "django_mq.E010"
    assert sentence in found.msg


def test_the_transport_options_of_a_broker_are_checked_with_its_url(settings: Settings) -> None:
    settings.CELERY_BROKER_URL = "django-mq://"
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {"priority_order": "upside-down", "visibility_timeout": 60}

    [found] = check_broker_url()

    assert "use amqp or redis" in found.msg


def test_each_of_several_broker_urls_is_checked(settings: Settings) -> None:
    settings.CELERY_BROKER_URL = "django-mq://;django_mq:///other"
    settings.OTHER_BROKER_URL = ["djangomq://", "redis://"]

    assert len(check_broker_url()) == 2


@pytest.mark.parametrize(
    "value", ["django-mq:///jobs", "django_mq://", "django-mq:///:memory:", "django-mq://host"]
)
def test_a_result_backend_that_keeps_no_results_is_an_error_that_says_what_to_write(
    settings: Settings, value: str
) -> None:
    settings.CELERY_RESULT_BACKEND = value

    [found] = check_result_backend()

    assert found.id == "django_mq.E012"
    assert f"CELERY_RESULT_BACKEND is {value!r}" in found.msg
    assert "Write django-mq://" in str(found.hint)


@pytest.mark.parametrize(
    "value",
    ["django-mq://", "django-mq", "django-db", "redis://", "rpc://", "django_mq_results.Backend", "", None],
)
def test_another_result_backend_passes(settings: Settings, value: str | None) -> None:
    settings.CELERY_RESULT_BACKEND = value

    assert check_result_backend() == []


@pytest.mark.parametrize("url", ["django-mq://", "django-mq:///default?queue_order=listed", "redis://", "", None])
def test_a_broker_url_of_ours_or_of_another_broker_passes(settings: Settings, url: str | None) -> None:
    settings.CELERY_BROKER_URL = url

    assert check_broker_url() == []


def test_right_settings_pass(settings: Settings) -> None:
    settings.DJANGO_MQ = {"QUEUES": {"orders": {"levels": 3}}}

    assert check_settings() == []


def test_the_checks_are_registered() -> None:
    assert checks.run_checks(tags=["django_mq"]) == []


def test_the_database_is_left_alone_unless_its_check_is_asked_for(settings: Settings) -> None:
    assert check_database(databases=None) == []
    assert check_database(databases=["another"]) == []


def test_a_well_set_up_database_passes(database: str) -> None:
    assert check_database(databases=[database]) == []


def test_settings_that_cannot_be_read_are_the_other_checks_business(settings: Settings) -> None:
    settings.DJANGO_MQ = {"POLL_SECONDS": "often"}

    assert check_database(databases=list(ALIASES)) == []


@pytest.fixture
def another(settings: Settings, django_db_blocker: Any) -> Any:
    """Add a database to the project for the time of a test."""

    def add(entry: dict[str, Any]) -> str:
        complete = connections.configure_settings({"default": {}, "another": entry})
        connections.settings["another"] = complete["another"]
        settings.DJANGO_MQ = {"DATABASE": "another"}
        return "another"

    with django_db_blocker.unblock():
        yield add
    connections["another"].close()
    del connections["another"]
    del connections.settings["another"]


def test_a_database_without_a_store_is_an_error_with_a_hint(another: Any) -> None:
    alias = another({"ENGINE": "django.db.backends.dummy"})

    found = check_settings()

    assert ids(found) == ["django_mq.E004"]
    assert "PostgreSQL, MariaDB or SQLite (MySQL is untested)" in (found[0].hint or "")
    assert check_database(databases=[alias]) == []


@pytest.fixture
def no_psycopg(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a project whose PostgreSQL is reached through psycopg2 alone."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("django_mq.stores.postgresql.")]:
        monkeypatch.delitem(sys.modules, name)
    registry._kind.cache_clear()
    yield
    monkeypatch.undo()
    registry._kind.cache_clear()


def test_a_project_without_psycopg_3_is_told_before_anything_connects(
    settings: Settings, no_psycopg: None
) -> None:
    settings.DJANGO_MQ = {"DATABASE": "postgresql"}

    found = check_settings()

    assert ids(found) == ["django_mq.E009"]
    assert "psycopg 3" in (found[0].hint or "")
    with pytest.raises(DriverMissing, match="psycopg"):
        publish("orders", {}, using="postgresql")


def test_a_database_that_cannot_be_reached_is_an_error_with_a_hint(another: Any, tmp_path: Any) -> None:
    alias = another({"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "no" / "such" / "folder")})

    found = check_database(databases=[alias])

    assert ids(found) == ["django_mq.E005"]
    assert "DATABASES['another']" in (found[0].hint or "")


def test_sqlite_without_write_ahead_logging_is_a_warning_with_a_hint(another: Any, tmp_path: Any) -> None:
    alias = another({"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "plain.sqlite3")})

    found = check_database(databases=[alias])

    assert ids(found) == ["django_mq.W001", "django_mq.W001", "django_mq.W004"]
    assert "journal_mode=WAL" in (found[0].hint or "")


def test_migrations_that_are_not_applied_are_a_warning_with_the_command(another: Any, tmp_path: Any) -> None:
    alias = another({"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "empty.sqlite3")})

    [found] = [message for message in check_database(databases=[alias]) if message.id == "django_mq.W004"]

    assert "0001" in found.msg
    assert found.hint == "Run manage.py migrate django_mq --database another."


def test_the_command_that_applies_migrations_does_not_report_them(
    another: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alias = another({"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "empty.sqlite3")})
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])

    assert "django_mq.W004" not in ids(check_database(databases=[alias]))


@pytest.mark.parametrize(
    ("queues", "hint"),
    [
        ({"orders": {"dead_letter_queue": "dead"}}, "Add 'dead': {} to DJANGO_MQ['QUEUES']."),
        ({"orders": {"expiry_queue": "latr"}, "later": {}}, "Did you mean 'later'?"),
    ],
)
def test_a_dead_letter_queue_that_is_not_declared_is_a_warning(
    settings: Settings, queues: dict[str, Any], hint: str
) -> None:
    settings.DJANGO_MQ = {"QUEUES": queues}

    [found] = check_settings()

    assert found.id == "django_mq.W005"
    assert hint in (found.hint or "")
    settings.DJANGO_MQ = {"QUEUES": queues, "AUTO_DECLARE": True}
    assert not check_settings()


@pytest.fixture
def a_handler_of_ordres() -> Iterator[None]:
    consumer("ordres")(print)
    yield
    forget("ordres")


@pytest.mark.usefixtures("a_handler_of_ordres")
@pytest.mark.django_db
def test_a_handler_of_an_unknown_queue_is_a_warning_until_the_queue_exists(settings: Settings) -> None:
    settings.DJANGO_MQ = {"QUEUES": {"orders": {}}}

    [found] = [message for message in check_database(databases=["default"]) if "'ordres'" in message.msg]

    assert (found.id, "print" in found.msg) == ("django_mq.W005", True)
    assert found.hint == "Add 'ordres': {} to DJANGO_MQ['QUEUES']. Did you mean 'orders'?"
    declare(shared_store("default"), "ordres")
    assert not [message for message in check_database(databases=["default"]) if "'ordres'" in message.msg]


@pytest.fixture
def an_exclusive_queue_with_two_kinds() -> Iterator[None]:
    async def ship(_: Any) -> None: ...

    consumer("ordres", selector="size > 5")(ship)
    yield
    forget("ordres")


@pytest.mark.usefixtures("a_handler_of_ordres", "an_exclusive_queue_with_two_kinds")
@pytest.mark.django_db
def test_handlers_of_two_kinds_of_an_exclusive_queue_are_a_warning() -> None:
    declare(shared_store("default"), "ordres", {"exclusive": True})

    [found] = [message for message in check_database(databases=["default"]) if "'ordres'" in message.msg]

    assert (found.id, "exclusive=True lets only 1" in found.msg) == ("django_mq.W011", True)


def test_handlers_that_want_the_same_messages_are_named() -> None:
    consumer("ordres", selector="size < 10")(print)
    consumer("ordres", selector="size > 5")(repr)

    found = [message for message in check_handlers() if message.id == "django_mq.W008"]
    forget("ordres")

    [problem] = [message.msg for message in found]
    assert problem.startswith("builtins.print and builtins.repr of queue 'ordres' both want messages with size =")


PROJECT = """
import sys
sys.path.insert(0, {folder!r})
from django.conf import settings
settings.configure(
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    INSTALLED_APPS=["django_mq", {apps}],
    TASKS={tasks!r},
)
import django
django.setup()
from django.core.management import call_command
call_command("check")
"""


def checked(folder: Path, *, apps: str = "", tasks: dict[str, Any] | None = None) -> str:
    """Return what ``check``, without a database, prints for a project with an app in the folder."""
    program = PROJECT.format(folder=str(folder), apps=apps, tasks=tasks or {})
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr


def test_handlers_that_cannot_be_loaded_are_named_without_a_database(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    (tmp_path / "shop/consumers.py").write_text("raise ValueError('No shop today.')")

    said = checked(tmp_path, apps="'shop'")

    assert "(django_mq.W007) The handlers cannot be loaded: ValueError: No shop today.\n" in said


@pytest.mark.parametrize("apps", ["", "'django_tasks'"])
def test_a_misspelt_option_of_a_task_backend_is_named_without_a_database(tmp_path: Path, apps: str) -> None:
    if not find_spec("django_tasks"):
        pytest.skip("Django itself has the tasks.")
    backend = {"BACKEND": "django_mq.integrations.tasks.MQBackend", "QUEUES": ["a"], "OPTIONS": {"CREDITS": 1}}

    said = checked(tmp_path, apps=apps, tasks={"default": backend})

    assert "(django_mq.E008) TASKS['default']: OPTIONS has no 'CREDITS'" in said
    assert "W007" not in said


def test_tables_that_are_missing_in_spite_of_their_migrations_are_a_warning(another: Any, tmp_path: Any) -> None:
    alias = another({"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "empty.sqlite3")})
    call_command("migrate", "django_mq", database=alias, fake=True, verbosity=0)

    [found] = [message for message in check_database(databases=[alias]) if message.id == "django_mq.W004"]

    assert "A table or column of django_mq is missing" in found.msg
    assert "mq_doctor --database another" in (found.hint or "")


def test_a_project_that_forgot_the_app_is_told_to_install_it() -> None:
    program = """
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
import django
django.setup()
from django_mq.api import publish
publish("orders", {})
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr

    assert "add 'django_mq' to INSTALLED_APPS, and run manage.py migrate" in said
