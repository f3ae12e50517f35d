"""Databases and servers for every test, started when the first test that needs them runs.

- ``database`` and ``committed_database`` run a test once per kind of database;
- ``redis_url`` and ``rabbitmq_url`` are the session's brokers; ``redis_server`` and ``postgresql_server`` are a
  test's own, to kill and restart;
- ``process_environment`` makes a process that a test starts use the test's database.

A server that cannot be had skips the tests that need it, except in CI, where it fails them.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.db.backends.postgresql.creation import DatabaseCreation as PostgreSQLCreation
from django.test import TransactionTestCase
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings

from tests.services.environment import Services
from tests.services.mariadb import is_expected
from tests.services.postgresql import PostgreSQL
from tests.services.redis import Redis, find_free_port
from tests.services.server import UnavailableError, in_ci
from tests.settings.databases import from_url, to_url
from tests.support.leaks import tell_where_leaks_begin
from tests.support.recording import record_no_more
from tests.support.tables import empty_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from pytest_django import Settings

#: Alias in ``tests.settings.every_database`` to the name that the test's id shows.
ALIASES = {"default": "sqlite", "postgresql": "postgresql"}
if is_expected():  # its driver has to be built, so a laptop may do without it
    ALIASES["mariadb"] = "mariadb"
#: Names of stores in the ids of tests.
KINDS = {"sqlite", "postgresql", "mariadb", "memory"}
#: Aliases on a server that has to be started.
SERVED = tuple(alias for alias in ALIASES if alias != "default")

SERVICES = pytest.StashKey[Services]()

# How long an example takes says something of the machine, and nothing of what the example is about.
# To explain a failure, Hypothesis traces each line of many further runs, which takes longer than a test may.
hypothesis_settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
hypothesis_settings.load_profile("any machine")

tell_where_leaks_begin()


#: Processes that share a run of the whole suite, each with servers of its own.
PROCESSES = 2
#: Their tests take longest, so a process that begins with one of them last would keep the other one waiting.
SLOW = {"admin", "agreement", "comparison", "docs", "example_project", "journeys", "pipeline", "proof", "suites"}


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Distribute the whole suite over processes; tests named on the command line run in this process.

    ``-n 0``, ``--pdb`` and ``-p no:xdist`` run the whole suite in this process.
    """
    is_worker = hasattr(config, "workerinput")
    if is_worker or config.option.usepdb or not config.pluginmanager.hasplugin("xdist"):
        return
    if config.option.numprocesses is None and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.option.numprocesses = PROCESSES
    if config.option.numprocesses and config.option.dist == "no":
        config.option.dist = "loadfile"
        config.option.loadscopereorder = False  # keep the order of pytest_collection_modifyitems
        # A process that replaces one that has died gets the rest of its file, and waits for ever for more.
        config.option.maxworkerrestart = "0"


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the servers of this session; none is started yet."""
    # A shell starts what runs in its background deaf to Ctrl-C, and so would be every process of a test.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[SERVICES] = Services(durable=False)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop them, after the last fixture has let go."""
    services = config.stash.get(SERVICES, None)
    if services is not None:
        services.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not tested on a kind of database, and put slow tests first."""
    absent = [item for item in items if aliases_of(item) - set(ALIASES) or not is_tested(item)]
    if absent:
        config.hook.pytest_deselected(items=absent)
        gone = set(absent)
        items[:] = [item for item in items if item not in gone]
    items.sort(key=lambda item: SLOW.isdisjoint(item.nodeid.split("/")))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure in CI as soon as it is there: a run that is ended from outside prints no summary."""
    if report.failed and in_ci() and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.__stderr__.write(f"\n{report.nodeid} failed in {report.when}:\n{report.longreprtext}\n")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Say how a process of the run has died: a negative code is the number of a signal."""
    if error:
        process = node.gateway._io.popen
        sys.__stderr__.write(f"\nThe process of {node.gateway.id} ended with the code {process.wait(10)}\n")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test whose database has no server, before Django misses the alias."""
    for name in aliases_of(item).intersection(SERVED):
        url_or_skip(item.config.stash[SERVICES], name)


def is_tested(item: pytest.Item) -> bool:
    """Whether a test runs on the kind of database in its id, by its mark ``on``; in the long run, too."""
    mark = item.get_closest_marker("on")
    kinds = KINDS.intersection(item.callspec.id.replace(" ", "-").split("-")) if hasattr(item, "callspec") else ()
    if mark is None or not kinds or kinds.intersection(mark.args):
        return True
    item.add_marker("once")
    return mark.kwargs.get("once") in kinds


def aliases_of(item: pytest.Item) -> set[str]:
    """Return the database aliases that a test's ``django_db`` mark names."""
    mark = item.get_closest_marker("django_db")
    named = (mark and mark.kwargs.get("databases")) or ()
    return set(ALIASES) if named == "__all__" else set(named)


def url_or_skip(services: Services, name: str) -> str:
    """Return the URL of a server of the session, or end the test as its absence demands."""
    try:
        return services.url(name)
    except UnavailableError as missing:
        skip_or_fail(missing)


def skip_or_fail(missing: UnavailableError) -> NoReturn:
    """Skip on a laptop, fail in CI."""
    if in_ci():
        pytest.fail(str(missing), pytrace=False)
    pytest.skip(str(missing))


# Databases


def every_database(*, transaction: bool = False) -> list[Any]:
    """Return one fixture parameter per kind of database, each marked with the database it needs."""
    return [
        pytest.param(alias, id=name, marks=pytest.mark.django_db(databases=[alias], transaction=transaction))
        for alias, name in ALIASES.items()
    ]


@pytest.fixture(params=every_database())
def database(request: pytest.FixtureRequest, settings: Settings) -> str:
    """An alias that holds the queues during the test; all is rolled back afterwards."""
    return hold_queues(settings, request.param)


@pytest.fixture(params=every_database(transaction=True))
def committed_database(request: pytest.FixtureRequest, settings: Settings) -> str:
    """An alias like ``database`` on which commits are real; its tables are emptied afterwards."""
    return hold_queues(settings, request.param)


def hold_queues(settings: Settings, alias: str) -> str:
    """Put the queues on the alias until the test is over, as a site with a second database does."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DATABASE": alias}
    settings.DATABASE_ROUTERS = ["django_mq.routers.MQRouter"]
    return alias


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest,
    django_db_modify_db_settings_parallel_suffix: None,
    services: Services,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Tell Django where the databases are, just before it makes the test databases (pytest-django's hook)."""
    path = str(tmp_path_factory.mktemp("database") / "django_mq.sqlite3")
    complete("default", {"NAME": path, "TEST": {"NAME": path}})
    needed = set().union(*(aliases_of(item) for item in request.session.items))
    if "mariadb" not in needed:
        # Celery has Django check the models for all databases, and for this one Django asks the server.
        connections.settings.pop("mariadb", None)
    for alias in needed.intersection(SERVED):
        try:
            complete(alias, from_url(services.url(alias)))
        except UnavailableError:
            # pytest_runtest_setup ends every test that needs it; the others must go on.
            connections.settings.pop(alias, None)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Make the test databases, and have them emptied quickly after tests that commit."""
    # Not undone: the databases are dropped after this fixture has ended.
    PostgreSQLCreation._destroy_test_db = drop_used_database
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_tables)
        yield


def drop_used_database(self: PostgreSQLCreation, name: str, verbosity: int) -> None:
    """Drop a test database, even if a thread of a test has not closed its connection yet."""
    with self._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {self.connection.ops.quote_name(name)} WITH (FORCE)")


def complete(alias: str, known: dict[str, Any]) -> None:
    """Fill in what the settings left open. Nothing has connected yet."""
    settings = connections[alias].settings_dict
    settings["TEST"].update(known.pop("TEST", {}))
    settings.update(known)


@pytest.fixture
def process_environment() -> Callable[[str], dict[str, str]]:
    """Return the environment for a process on the test database of an alias.

    Such a process sees what is committed only: use it with ``committed_database``.
    """

    def environment(alias: str, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"tests.settings.{ALIASES[alias]}",
            "DATABASE_URL": to_url(connections[alias].settings_dict),
            "PYTHONPATH": str(Path(__file__).parents[1]),
            **more,
        }

    return environment


# Logs


@pytest.fixture(autouse=True)
def our_warnings_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    """Have our loggers heed no root level: a Celery worker in this process sets that for good."""
    caplog.set_level(logging.WARNING, logger="django_mq")


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    """What a process knows of queues belongs to the test before."""
    from django_mq import process

    process.reset()


@pytest.fixture(autouse=True)
def threads_of_results_end() -> Iterator[None]:
    """No thread, with a connection, goes on that a wait for a result or a report of progress has begun."""
    yield
    from django_mq.notifications.waiters import WAITERS
    from django_mq.replies.reporter import REPORTER

    WAITERS.close()
    REPORTER.close()


@pytest.fixture(autouse=True)
def no_failure_of_another_test_is_recorded() -> Iterator[None]:
    """A worker of Celery in this process has its failures recorded, and those of any later test."""
    yield
    record_no_more()


# Servers


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> Services:
    """The servers of the session, each started when its URL is first asked for."""
    return request.config.stash[SERVICES]


@pytest.fixture(scope="session")
def redis_url(services: Services) -> str:
    """The session's Redis. It is shared: use a prefix of your own, and never flush it."""
    return url_or_skip(services, "redis")


@pytest.fixture(scope="session")
def rabbitmq_url(services: Services) -> str:
    """The session's RabbitMQ. It is shared: give queues and exchanges names of your own, and delete them."""
    return url_or_skip(services, "rabbitmq")


@pytest.fixture
def redis_server() -> Iterator[Redis]:
    """A running Redis of the test's own, to kill, freeze and restart."""
    try:
        with Redis() as server:
            yield server
    except UnavailableError as missing:
        skip_or_fail(missing)


@pytest.fixture
def postgresql_server() -> Iterator[PostgreSQL]:
    """A running, empty PostgreSQL of the test's own, to kill and restart."""
    try:
        with PostgreSQL(durable=False) as server:
            yield server
    except UnavailableError as missing:
        skip_or_fail(missing)


@pytest.fixture
def free_port() -> int:
    """A free port of the loopback."""
    return find_free_port()
