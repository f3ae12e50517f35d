"""The Kombu transport, which is one connection.

It puts together what one connection declares, publishes and consumes.
"""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any

import django
from amqp.exceptions import RecoverableConnectionError as Disconnected
from celery.signals import worker_init, worker_shutdown
from django.apps import apps
from kombu.exceptions import OperationalError
from kombu.transport import virtual

import django_mq
from django_mq import conf, outages
from django_mq.delivery.consumer.session import close_retired
from django_mq.errors import BrokerURLError, SessionLost, StoreError, StoreUnavailable, TablesMissing
from django_mq.integrations.celery.channel import Channel as MQChannel
from django_mq.integrations.celery.declarations import Committing, Declarations, ExchangeTable
from django_mq.integrations.celery.deliveries import Deliveries, told_to_stop
from django_mq.integrations.celery.loop_driver import LoopDriver, has_left
from django_mq.integrations.celery.publisher import Publisher
from django_mq.integrations.celery.transient_queues import TransientQueues
from django_mq.integrations.celery.url import Address, check_alias, current
from django_mq.stores.connections import apart_from_event_loops

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from django_mq.delivery.consumer.session import Session
    from django_mq.stores.base import Store


#: A worker that has lost the database tries for so long, in seconds, before Celery tries, with longer pauses.
RECONNECT_SECONDS = 60.0


class WrongAddress(BrokerURLError, OperationalError):  # noqa: N818 - named as all errors of django_mq
    """The broker URL leads nowhere. To Kombu it is a connection error that it does not retry."""


class WrongAddressOfSeveral(BrokerURLError, OperationalError, ConnectionError):  # noqa: N818 - as above
    """The same where there are several URLs: Kombu tries the next."""


class Transport(virtual.Transport):
    """``django-mq://``; see ``url.py`` for the URL."""

    Channel = MQChannel
    driver_type = "django-mq"
    driver_name = "django_mq"
    can_parse_url = True
    connection_errors = (*virtual.Transport.connection_errors, StoreError)
    #: Kombu tries again, with a new connection, after these. It does not after other errors of the database, which
    #: would refuse the statement again, above all inside the caller's broken transaction.
    recoverable_connection_errors = (StoreUnavailable, SessionLost, TablesMissing, ConnectionError, Disconnected)
    recoverable_channel_errors = ()
    implements = virtual.Transport.implements.extend(
        asynchronous=True,
        exchange_type=frozenset(["direct", "topic", "fanout", "headers"]),
        heartbeats=False,
        batch_publish=True,
    )

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        address, self._wrong = read(client)
        redis_order = address.redis_order
        self.alias = address.alias or conf.load().DATABASE
        self._committing = Committing(self.alias, self._consuming_session)
        self.transient = TransientQueues(self._committing, redis_order=redis_order)
        self.declarations = Declarations(self._committing)
        self.exchanges = ExchangeTable(self._committing, self.declarations)
        self.publisher = Publisher(self.alias, self.declarations, self._committing, redis_order=redis_order)
        self.deliveries = Deliveries(
            self.alias,
            address,
            declarations=self.declarations,
            transient=self.transient,
            publisher=self.publisher,
        )
        self._driver = LoopDriver(self.deliveries)

    def _consuming_session(self) -> Session | None:
        return self.deliveries.consuming_session

    @apart_from_event_loops
    def establish_connection(self) -> Any:
        """Check that the tables can be read, and return the transport. Raises StoreError and BrokerURLError."""
        if not apps.ready and not apps.loading:
            django.setup()  # the Celery command line does not call it
        if self._wrong is not None:
            raise self._wrong
        self._reach()
        if outages.ongoing:
            outages.database(self.alias).succeeded(self)
        return super().establish_connection()

    def _reach(self) -> None:
        """Read the tables; a worker that has lost the database waits for it. Raises StoreError."""
        end = time.monotonic() + (RECONNECT_SECONDS if self._is_reconnecting else 0.0)
        for failures in count():
            try:
                with self._committing() as store:
                    store.queue("")
            except StoreUnavailable as error:
                if time.monotonic() > end or told_to_stop():
                    raise
                outages.database(self.alias).failed(self, error)
            else:
                return
            time.sleep(outages.pause_seconds(failures))

    @property
    def _is_reconnecting(self) -> bool:
        """Whether a worker that has left its loop connects again, and there is no other broker."""
        others = self.client is not None and len(self.client.alt or ()) > 1
        return not others and has_left()

    @apart_from_event_loops
    def close_connection(self, connection: Any) -> None:
        """Give back the messages that have not begun; running tasks may settle until they end."""
        self._driver.leave()
        self.deliveries.buffer.release()
        super().close_connection(connection)
        for unlocked in self.transient.close():
            self.deliveries.note_left(unlocked)
        self.deliveries.retire()
        self._committing.close()

    def driver_version(self) -> str:
        return django_mq.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:  # noqa: ARG002 - Kombu's signature
        """Return the URL, which has no password."""
        return uri

    def kept(self) -> AbstractContextManager[Store]:
        """Use a store that commits each statement."""
        return self._committing()

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:  # noqa: ARG002 - Kombu's signature
        """Deliver one message, as Kombu's own loops count. Raises TimeoutError if none comes in time."""
        self._driver.drain(timeout)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:  # noqa: ARG002 - Kombu's signature
        """Let the event loop of a worker drive this transport."""
        self._committing.enter_worker()
        self._driver.enter(loop)


@worker_init.connect(dispatch_uid="django_mq.step", weak=False)
def _install_step(sender: Any, **_: Any) -> None:
    """Add the worker step. A worker imports the transport of its broker before it sends this signal."""
    from django_mq.integrations.celery.step import install  # noqa: PLC0415 - other programs need no worker's modules

    install(sender)


@worker_shutdown.connect(dispatch_uid="django_mq.close", weak=False)
def _close_session(**_: Any) -> None:
    """Close the session of a worker whose pool has ended. After HUP, Celery does not come to our ``atexit``."""
    close_retired()


def read(client: Any) -> tuple[Address, BrokerURLError | None]:
    """Return where a Kombu connection leads, and the error to raise when it connects, if its URL is wrong."""
    try:
        address = current(client)
        check_alias(address)
    except BrokerURLError as error:
        several = len(client.alt or ()) > 1
        return Address(), (WrongAddressOfSeveral if several else WrongAddress)(str(error))
    return address, None
