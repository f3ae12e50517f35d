"""Places on every kind of database that a place can be on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import url_or_skip
from tests.journeys.conftest import Templates
from tests.proof.place import Nursery, Place, new_mariadb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pytest_django import DjangoDbBlocker

    from tests.services.environment import Services

    #: Makes a place on one kind of database: ``places("sqlite")``.
    Places = Callable[..., AbstractContextManager[Place]]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """The program that forks workers."""
    started = Nursery()
    yield started
    started.close()


@pytest.fixture(scope="session")
def places(
    services: Services,
    nursery: Nursery,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Places:
    """Makes places on databases of their own, which pytest-django knows nothing of."""
    empty = Templates(services, tmp_path_factory.mktemp("places"))

    @contextmanager
    def make(kind: str, url: str | None = None, **mq: Any) -> Iterator[Place]:
        if kind == "mariadb" and url is None:
            url = new_mariadb(url_or_skip(services, kind))
        place = Place(url or empty.empty(kind), tmp_path_factory.mktemp("place"), nursery, **mq)
        with django_db_blocker.unblock(), place:
            place.prepare()
            yield place

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, places: Places) -> Iterator[Place]:
    """A place of the test's own."""
    with places(request.param) as made:
        yield made
