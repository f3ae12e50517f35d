"""Coded system checks: what is wrong with the settings, and how to mend it.

``docs/reference/checks.md`` has an anchor for every id.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any

from django.core import checks
from django.db import connections
from django.db.migrations.exceptions import NodeNotFoundError
from django.utils.module_loading import import_string

from django_mq import conf
from django_mq.alerts.extension import targets
from django_mq.engine.options import MEMORY_OPTIONS, OPTIONS
from django_mq.errors import (
    ConfigurationError,
    ContradictoryOptions,
    DriverMissing,
    StoreError,
    TablesMissing,
    UnsupportedDatabase,
    UnusableExtension,
    UnusableMiddleware,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.cycles import Cycle
    from django_mq.stores.base import Store


def register_all() -> None:
    """Register every check; called once by the app."""
    checks.register(check_settings, "django_mq")
    checks.register(check_handlers, "django_mq_handlers")
    checks.register(check_database, checks.Tags.database)


def check_settings(**_: Any) -> list[checks.CheckMessage]:
    """E001: no dictionary; E002: unknown; E003: impossible; E006: contradictions; E013; and what follows."""
    try:
        unknown = conf.unknown_names()
    except UnusableExtension as error:
        return [
            _error(str(error), "Correct DJANGO_MQ['EXTENSIONS']. Until then nothing of django_mq works.", "E013")
        ]
    except ConfigurationError as error:
        return [_error(str(error), "Write DJANGO_MQ = {...} in the settings.", "E001")]
    if unknown:
        hint = (
            "Remove them, or correct the spelling. The settings are"
            f" {', '.join(sorted(conf.SETTINGS))};"
            f" the options of a queue are {', '.join(sorted(OPTIONS))}."
        )
        return [_error(f"Unknown settings in DJANGO_MQ: {', '.join(unknown)}.", hint, "E002")]
    try:
        conf.load()
    except ContradictoryOptions as error:
        hint = "Leave one of the two out."
        return [_error(str(error), hint, "E006")]
    except (ConfigurationError, TypeError) as error:
        return [_error(str(error), "Correct the value in DJANGO_MQ. The message says what is allowed.", "E003")]
    return [
        *_check_middleware(),
        *_check_mask(),
        *_check_alerts(),
        *_check_store(),
        *_check_autocommit(),
        *_check_memory_options(),
        *_check_linked_queues(),
    ]


def _check_memory_options() -> list[checks.CheckMessage]:
    """W003: options of a queue that a database refuses to declare."""
    queues = conf.raw().get("QUEUES", {})
    named = [
        f"QUEUES[{queue!r}][{option!r}]"
        for queue in queues
        for option in MEMORY_OPTIONS
        if option in queues[queue]
    ]
    if not named:
        return []
    hint = "Leave them out, unless the queue is declared in memory only (django-mq:///:memory:)."
    problem = f"A database refuses to declare queues with these options of DJANGO_MQ: {', '.join(named)}."
    return [checks.Warning(problem, hint=hint, id="django_mq.W003")]


def _check_linked_queues() -> list[checks.CheckMessage]:
    """W005: dead-letter and expiry queues that QUEUES does not declare."""
    from django_mq.delivery.queues import linked_queues  # noqa: PLC0415 - stores need the loaded apps

    settings = conf.load()
    missing = () if settings.AUTO_DECLARE else sorted(linked_queues().difference(settings.QUEUES))
    return [
        _undeclared(f"A queue in DJANGO_MQ['QUEUES'] names the dead-letter or expiry queue {name!r}", name)
        for name in missing
    ]


def _check_queues(store: Store) -> list[checks.CheckMessage]:
    """W006: options that a queue has kept; W009; W005 and W011: queues of handlers. Raises TablesMissing."""
    from django_mq.delivery.operator.cycles import find_cycles  # noqa: PLC0415 - as above
    from django_mq.delivery.operator.drift import differences  # noqa: PLC0415 - as above

    alias = store.alias
    store.queues.find("any")  # without declared queues, nothing else asks
    return [
        *_check_handled_queues(alias),
        *_check_kinds(alias),
        *(
            checks.Warning(
                f"Queue {each.queue!r}: {each}.",
                hint=f"To overwrite the option, run manage.py mq_queue sync {each.queue} --force.",
                id="django_mq.W006",
            )
            for each in differences(using=alias)
        ),
        *map(_cycle, find_cycles(using=alias)),
    ]


def _cycle(cycle: Cycle) -> checks.CheckMessage:
    """W009: dead letters that come back."""
    hint = "A delayed retry is such a cycle. If it is none, bind or edit one of the queues."
    if not cycle.endless:
        return checks.Info(f"{cycle}.", hint=hint, id="django_mq.W009")
    hint = f"Give the queue a limit: manage.py mq_queue edit {cycle.endless[0]} --max-dead-letter-cycles 20."
    return checks.Warning(f"{cycle}.", hint=hint, id="django_mq.W009")


def check_handlers(**_: Any) -> list[checks.CheckMessage]:
    """E008: a backend of Django's tasks that is set up wrongly; W007: handlers that cannot be loaded; and W008."""
    from django_mq.delivery.consumer.handlers import discover  # noqa: PLC0415 - as above

    try:
        conf.load()
    except (ConfigurationError, TypeError):
        return []  # check_settings says it
    with suppress(Exception):  # loading the handlers raises it, too
        if wrong := _check_task_backends():
            return wrong
    try:
        discover()
    except Exception as error:  # noqa: BLE001 - a module of the project may raise anything
        problem = f"The handlers cannot be loaded: {type(error).__name__}: {str(error).rstrip('.')}."
        hint = "Correct the consumers.py that raises it. Until then no worker starts."
        return [checks.Warning(problem, hint=hint, id="django_mq.W007")]
    return _check_selectors()


def _check_task_backends() -> list[checks.CheckMessage]:
    """Return what our backends in TASKS say. Only some versions of the interface ask them."""
    name = "django.tasks" if find_spec("django.tasks") else "django_tasks"
    if not find_spec(name):
        return []
    backends = import_module(name).task_backends
    found = [message for alias in backends for message in backends[alias].check()]
    return [message for message in found if (message.id or "").startswith("django_mq.")]


def _check_handled_queues(alias: str) -> list[checks.CheckMessage]:
    """W005: handlers of queues that are neither declared nor exist."""
    from django_mq.delivery.consumer.handlers import discover  # noqa: PLC0415 - as above
    from django_mq.delivery.queues import undeclared_among  # noqa: PLC0415 - as above

    try:
        handlers = discover()
    except Exception:  # noqa: BLE001 - check_handlers says it
        return []
    return [
        _undeclared(f"{handlers[name][0].name} consumes the queue {name!r}", name)
        for name in undeclared_among(handlers, using=alias)
    ]


def _check_kinds(alias: str) -> list[checks.CheckMessage]:
    """W011: handlers of a queue that would never get their messages beside others of another kind."""
    from django_mq.delivery.consumer.handlers import discover  # noqa: PLC0415 - as above
    from django_mq.delivery.consumer.kinds import problems_of_kinds  # noqa: PLC0415 - as above

    try:
        handlers = [*chain.from_iterable(discover().values())]
    except Exception:  # noqa: BLE001 - check_handlers says it
        return []
    hint = "Until then no worker that has all of them starts."
    return [
        checks.Warning(problem, hint=hint, id="django_mq.W011")
        for problem in problems_of_kinds(handlers, using=alias)
    ]


def _check_selectors() -> list[checks.CheckMessage]:
    """W008: handlers of a queue whose selectors match the same messages."""
    from django_mq.delivery.consumer.handlers import overlaps  # noqa: PLC0415 - as above

    hint = "Make the selectors exclude each other, or leave it so if the order is what you want."
    return [
        checks.Warning(
            f"{first.name} and {second.name} of queue {first.queue!r} both want messages with {example}: the first"
            " one gets them.",
            hint=hint,
            id="django_mq.W008",
        )
        for first, second, example in overlaps()
    ]


def _undeclared(problem: str, name: str) -> checks.CheckMessage:
    from django_mq.delivery.queues import similar  # noqa: PLC0415 - as above

    hint = f"Add {name!r}: {{}} to DJANGO_MQ['QUEUES'].{similar(name, conf.load().QUEUES)}"
    return checks.Warning(f"{problem}, which is not declared.", hint=hint, id="django_mq.W005")


def _check_autocommit() -> list[checks.CheckMessage]:
    """W002: Django commits nothing by itself."""
    alias = conf.load().DATABASE
    if connections[alias].settings_dict["AUTOCOMMIT"]:
        return []
    problem = (
        f"AUTOCOMMIT is False in DATABASES[{alias!r}]: a message is there when your code commits, and no hint"
        " tells workers of it. Transactional handlers are refused."
    )
    hint = "Leave AUTOCOMMIT out, and use transaction.atomic()."
    return [checks.Warning(problem, hint=hint, id="django_mq.W002")]


def _check_store() -> list[checks.CheckMessage]:
    """E004: no store for the database; E009: its driver cannot be imported. The database is not asked."""
    from django_mq.stores.registry import kind_of  # noqa: PLC0415 - stores need the loaded apps

    try:
        kind_of(connections[conf.load().DATABASE])
    except DriverMissing as error:
        hint = (
            "On PostgreSQL, install psycopg 3: pip install 'django-mq[postgres]'. Django then uses it in place of "
            "psycopg2 for every PostgreSQL database of the project."
        )
        return [_error(str(error), hint, "E009")]
    except UnsupportedDatabase as error:
        hint = "Point DJANGO_MQ['DATABASE'] at an alias on PostgreSQL, MariaDB or SQLite (MySQL is untested)."
        return [_error(str(error), hint, "E004")]
    return _check_hints()


def _check_hints() -> list[checks.CheckMessage]:
    """E011: the database cannot notify workers, or the class that HINTS names cannot be used."""
    from django_mq.notifications.registry import carries_hints, class_named  # noqa: PLC0415 - as above

    settings = conf.load()
    if "." in (settings.HINTS or ""):
        try:
            class_named(str(settings.HINTS))
        except Exception as error:  # noqa: BLE001 - a module of the project may raise anything
            problem = f"HINTS is {settings.HINTS!r}, which cannot be used: {error}."
            return [_error(problem, "Give the dotted path of a subclass of Notifier.", "E011")]
    if settings.HINTS != "postgresql" or carries_hints(settings.DATABASE):
        return []
    problem = f"HINTS is 'postgresql', and DATABASES[{settings.DATABASE!r}] is another kind of database."
    return [_error(problem, "Leave HINTS out, or set it to 'redis' or 'none'.", "E011")]


def _check_middleware() -> list[checks.CheckMessage]:
    """E014: a middleware cannot be imported, made, or called; W010: keys of encryption that nothing uses."""
    try:
        is_encrypting = bool(conf.middleware().encoders)
    except UnusableMiddleware as error:
        hint = "Correct DJANGO_MQ['MIDDLEWARE']. Until then nothing is published, and no worker starts."
        return [_error(str(error), hint, "E014")]
    if is_encrypting or not conf.load().ENCRYPTION_KEYS:
        return []
    hint = "Name 'django_mq.middleware.encryption.EncryptionMiddleware' there, or remove the keys."
    problem = "ENCRYPTION_KEYS has keys, but no class of MIDDLEWARE encrypts: bodies are stored as they are."
    return [checks.Warning(problem, hint=hint, id="django_mq.W010")]


def _check_mask() -> list[checks.CheckMessage]:
    """E007: the MASK function cannot be imported."""
    path = conf.load().MASK
    if not isinstance(path, str):
        return []
    try:
        if callable(import_string(path)):
            return []
        problem = "which is no function"
    except ImportError as error:
        problem = f"which cannot be imported: {error}"
    hint = "Give the dotted path of a function of two arguments, or a list of keys. Until then all is hidden."
    return [_error(f"DJANGO_MQ['MASK'] names {path!r}, {problem}.", hint, "E007")]


def _check_alerts() -> list[checks.CheckMessage]:
    """E015: where alerts are to be sent is wrong."""
    try:
        targets()
    except ConfigurationError as error:
        return [_error(str(error), "Until it is corrected, no alert is sent.", "E015")]
    return []


def check_database(databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """E005: the database cannot be asked; W001: slow or fragile settings of it; and what follows."""
    try:
        alias = conf.load().DATABASE
    except (ConfigurationError, TypeError):
        return []
    if alias not in (databases or ()):
        return []
    try:
        from django_mq.stores.registry import store_for  # noqa: PLC0415 - stores need the loaded apps

        store = store_for(connections[alias])
        problems = store.server.setting_problems()
    except UnsupportedDatabase:
        return []  # check_settings says it
    except StoreError as error:
        return [_error(str(error), f"Start the database, or correct DATABASES[{alias!r}].", "E005")]
    found: list[checks.CheckMessage] = [
        checks.Warning(problem, hint=hint, id="django_mq.W001") for problem, hint in problems
    ]
    if sys.argv[1:2] != ["migrate"]:
        try:
            found += _check_migrations(alias) or _check_queues(store)
        except TablesMissing as error:
            hint = f"Run manage.py mq_doctor --database {alias}: it says how to create them."
            found.append(checks.Warning(f"{error}.", hint=hint, id="django_mq.W004"))
    return found


def _check_migrations(alias: str) -> list[checks.CheckMessage]:
    """W004: migrations that are not applied. The caller leaves it out for the command that applies them."""
    from django_mq.diagnosis.doctor.database import unapplied_migrations  # noqa: PLC0415 - as above

    with suppress(NodeNotFoundError):  # mq_doctor explains it
        if missing := unapplied_migrations(alias):
            problem = f"Migrations of django_mq are not applied to {alias!r}: {', '.join(missing)}."
            hint = f"Run manage.py migrate django_mq --database {alias}."
            return [checks.Warning(problem, hint=hint, id="django_mq.W004")]
    return []


def _error(message: str, hint: str, code: str) -> checks.Error:
    return checks.Error(message, hint=hint, id=f"django_mq.{code}")
