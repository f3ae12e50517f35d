"""Programs that run for so long, on a PostgreSQL of their own."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proof.account import Account
    from tests.proof.place import Place


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


def by_the_clock(work: Callable[[Place, Callable[[str], None], float], str], seconds: float, **mq: Any) -> None:
    """Make a place on a PostgreSQL of its own, and work on it for so long; print what the work returns."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings.sqlite")
    import django

    django.setup()
    from tests.proof.place import Nursery, Place
    from tests.services.postgresql import PostgreSQL

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.0f} s  {text}\n")
        sys.stdout.flush()

    began = time.monotonic()
    with PostgreSQL(durable=False) as server, tempfile.TemporaryDirectory() as directory:
        nursery = Nursery()
        with Place(server.url, Path(directory), nursery, **mq) as place:
            place.prepare()
            say(work(place, say, began + seconds))
        nursery.close()
