"""Programs that run for so long, on a PostgreSQL of their own."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proof.account import Account
    from tests.proof.place import Place
    from tests.services.mariadb import MariaDB
    from tests.services.postgresql import PostgreSQL


def right_account(place: Place) -> Account:
    """Return the account of a place, once it is right."""
    from tests.proof.account import Account

    account = Account.of(place.alias)
    account.check()
    account.check_done()
    return account


def told(account: Account) -> str:
    """Return the account as a sentence."""
    return (
        f"{len(account.sent):,} published = {len(account.accepted):,} accepted + {len(account.dead):,} dead"
        f" + {len(account.present):,} present; {account.twice} done twice"
    )


class LongRun(NamedTuple):
    """A place for a long run, its server, when the run began, and what prints a line with the time since."""

    place: Place
    server: PostgreSQL | MariaDB
    began: float
    say: Callable[[str], None]


@contextmanager
def long_run(store: str = "postgresql", *, durable: bool = True, **mq: Any) -> Iterator[LongRun]:
    """Set Django up, start a server of this kind, and make a place on an empty database of it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings.sqlite")
    import django

    django.setup()
    from tests.proof.place import Nursery, Place, new_mariadb
    from tests.services.mariadb import MariaDB
    from tests.services.postgresql import PostgreSQL

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.0f} s  {text}\n")
        sys.stdout.flush()

    began = time.monotonic()
    with (
        MariaDB() if store == "mariadb" else PostgreSQL(durable=durable) as server,
        tempfile.TemporaryDirectory() as directory,
    ):
        nursery = Nursery()
        url = new_mariadb(server.url) if store == "mariadb" else server.url
        with Place(url, Path(directory), nursery, **mq) as place:
            place.prepare()
            yield LongRun(place, server, began, say)
        nursery.close()


def by_the_clock(work: Callable[[Place, Callable[[str], None], float], str], seconds: float, **mq: Any) -> None:
    """Make a place on a PostgreSQL of its own, and work on it for so long; print what the work returns."""
    with long_run(durable=False, **mq) as run:
        run.say(work(run.place, run.say, run.began + seconds))
