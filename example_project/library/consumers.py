"""Handlers. They run in the Celery worker, and also in ``manage.py mq_worker``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django_mq.api import consumer, publish

from library.indexing import open_files, store_imports, write_summary

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
