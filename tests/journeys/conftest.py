"""Sites for the journeys. Each has a database of its own, copied from one that was migrated once."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from tests.conftest import url_or_skip
from tests.journeys.bridged import BridgedSite
from tests.journeys.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any

    from pytest_django import DjangoDbBlocker

    from tests.services.environment import Services

    #: Makes a site on one kind of database: ``sites("sqlite")``.
    Sites = Callable[..., AbstractContextManager[Site]]

#: Deadline of the sessions of killed workers: seconds that a test has to wait.
SHORT = {"SESSION_SECONDS": 3, "MAINTENANCE_SECONDS": 0.5, "SAFETY_POLL_SECONDS": 1}
#: Where none is killed, and one of several that stood still for some seconds would be given up.
LONGER = SHORT | {"SESSION_SECONDS": 9}
#: The kinds of sites. On ``rabbitmq``, tasks go through a SQLite database to Celery workers on RabbitMQ.
SITES = os.environ.get("JOURNEY_SITES", "sqlite postgresql").split()
#: The same for tests that also run on RabbitMQ without being asked to.
WITH_RABBITMQ = SITES if "rabbitmq" in SITES else [*SITES, pytest.param("rabbitmq", marks=pytest.mark.once)]


class Templates:
    """Makes the URL of a fresh, migrated database, quickly."""

    def __init__(self, services: Services, directory: Path) -> None:
        self._services = services
        self._directory = directory
        self._made: dict[str, str] = {}

    def fresh(self, kind: str) -> str:
        """Return the URL of a copy of the template."""
        if kind not in self._made:
            self._made[kind] = self.empty(kind)
            Site(self._made[kind], self._directory).migrate()
        return self._sqlite(self._made[kind]) if kind == "sqlite" else self._postgresql(self._made[kind])

    def empty(self, kind: str) -> str:
        """Return the URL of a database without tables."""
        if kind == "sqlite":
            return f"sqlite:///{self._directory / uuid4().hex}.sqlite3"
        return self._postgresql(None)

    def _sqlite(self, template: str) -> str:
        url = self.empty("sqlite")
        shutil.copy(template.removeprefix("sqlite:///"), url.removeprefix("sqlite:///"))
        return url

    def _postgresql(self, template: str | None) -> str:
        server = url_or_skip(self._services, "postgresql")
        name = f"journey_{uuid4().hex[:8]}"
        source = "template1" if template is None else urlsplit(template).path.strip("/")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}"')
        return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def templates(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """Fresh databases for sites."""
    return Templates(services, tmp_path_factory.mktemp("databases"))


@pytest.fixture(scope="session")
def sites(
    templates: Templates, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Sites:
    """Makes sites on databases of their own, which pytest-django knows nothing of."""

    @contextmanager
    def make(kind: str, url: str | None = None, **mq: Any) -> Iterator[Site]:
        directory = tmp_path_factory.mktemp("site")
        with django_db_blocker.unblock(), Site(url or templates.fresh(kind), directory, **mq) as site:
            yield site

    return make


@contextmanager
def made_for(request: pytest.FixtureRequest, sites: Sites, mq: dict[str, Any]) -> Iterator[Site]:
    """A site of the test's own; PostgreSQL with Redis, SQLite without."""
    if request.param == "rabbitmq":
        templates, blocker = (request.getfixturevalue(name) for name in ("templates", "django_db_blocker"))
        directory = request.getfixturevalue("tmp_path_factory").mktemp("site")
        through = request.getfixturevalue("rabbitmq_url")
        with blocker.unblock(), BridgedSite(templates.fresh("sqlite"), directory, through, **mq) as bridged:
            yield bridged
        return
    redis = {"REDIS_URL": request.getfixturevalue("redis_url")} if request.param == "postgresql" else {}
    with sites(request.param, **mq, **redis) as made:
        yield made


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest, sites: Sites) -> Iterator[Site]:
    """A site of the test's own, in which sessions have a short deadline."""
    with made_for(request, sites, SHORT) as made:
        yield made


@pytest.fixture(params=SITES)
def patient_site(request: pytest.FixtureRequest, sites: Sites) -> Iterator[Site]:
    """A site of the test's own on which several workers live that must not take each other for dead."""
    with made_for(request, sites, LONGER) as made:
        yield made
