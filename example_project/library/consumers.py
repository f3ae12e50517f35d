"""Handlers. They run in the Celery worker, and also in ``manage.py mq_worker``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django_mq.api import consumer, publish, step_of

from library.indexing import open_files, store_imports, write_summary
from library.shelf_reports import kinds_of_files, totals_of_shelves, write_shelf_report

if TYPE_CHECKING:
    from django_mq.api import ReceivedMessage

#: Time until the closing message looks again.
LOOK_AGAIN_SECONDS = 1.0


@consumer("facts", credit=50)
def keep_imports(message: ReceivedMessage) -> None:
    """Store the import edges of one parsed file."""
    store_imports(message.body["file"], message.body["imports"])


@consumer("closing", credit=1)
@transaction.atomic
def close_index(_message: ReceivedMessage) -> None:
    """Write the summary when every file is done; until then, deliver the message again later."""
    if open_files():
        publish("closing", delay=LOOK_AGAIN_SECONDS)
    else:
        write_summary()


# The steps of the workflow in workflows.py.


@consumer("report.index")
def list_shelves(_message: ReceivedMessage) -> list[str]:
    """Return the kinds of files, for each of which the next step runs."""
    return kinds_of_files()


@consumer("report.analyse", transactional=True)
def analyse_shelf(message: ReceivedMessage) -> dict[str, Any]:
    """Write the figures of one kind, in the transaction that ends the step, and return them."""
    return write_shelf_report(message.body)


@consumer("report.total")
def add_up(message: ReceivedMessage) -> dict[str, Any]:
    """Return the totals of all kinds."""
    return totals_of_shelves(step_of(message).results["analyse"])
