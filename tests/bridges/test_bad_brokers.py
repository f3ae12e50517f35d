"""A broker with alarms, another password or certificate, or that closes or refuses: what happens to messages."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from html import unescape
from typing import TYPE_CHECKING, Any, Final

import pytest

from django_mq.api import publish
from django_mq.bridges.declared import bridge_named
from django_mq.bridges.findings import find, show
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.worker import BridgeWorker
from django_mq.engine.states import State
from django_mq.models import Attempt, History, Message, Queue
from tests.bridges.conftest import OtherBroker
from tests.bridges.sites import Site
from tests.conftest import skip_or_fail
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import find_free_port
from tests.services.server import UnavailableError
from tests.support.certificates import write_certificate
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_django import Settings

pytestmark = [pytest.mark.once, pytest.mark.django_db(databases=["default"], transaction=True)]
QUEUE: Final = "outbox"
SECRET: Final = "t0p-s3cret"


class Encrypted(RabbitMQ):
    """A node that has an encrypted port, too, with a certificate for "localhost"."""

    def __init__(self, directory: Path) -> None:
        self.certificate, key = write_certificate(directory, "localhost")
        self.other_certificate, _ = write_certificate(directory, "elsewhere")
        self.encrypted_port = find_free_port()
        lines = (
            f"listeners.ssl.1 = 127.0.0.1:{self.encrypted_port}",
            f"ssl_options.cacertfile = {self.certificate}",
            f"ssl_options.certfile = {self.certificate}",
            f"ssl_options.keyfile = {key}",
        )
        super().__init__(durable=False, configuration=lines)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """A RabbitMQ of these tests."""
    try:
        with Encrypted(tmp_path_factory.mktemp("certificates")) as started:
            yield started
    except UnavailableError as missing:
        skip_or_fail(missing)


class Out:
    """A site whose queue is forwarded by a worker that the test turns."""

    def __init__(self, settings: Settings, broker: OtherBroker, url: Any, **options: Any) -> None:
        self.settings, self.broker = settings, broker
        self.queue = broker.queue()
        self._bridges = {"rabbit": {"url": url, "routing_key": self.queue, "pause_seconds": 0.1, **options}}
        settings.DJANGO_MQ = {
            **settings.DJANGO_MQ,
            "BRIDGES": self._bridges,
            "QUEUES": {QUEUE: {"bridge": "rabbit", "grouping": "shared"}},
        }
        self.worker = BridgeWorker(bridge_named("rabbit"), [QUEUE], using="default")
        self.worker.runtime.subscribe([QUEUE])

    @contextmanager
    def receiving(self, site: Site) -> Iterator[None]:
        """Have another site receive over the same bridge meanwhile."""
        outward = self.settings.DJANGO_MQ
        self.settings.DJANGO_MQ = {
            **outward,
            "SESSION_SECONDS": 2,
            "QUEUES": {QUEUE: {"bridge": "rabbit", "grouping": "shared"}, "orders": {}},
            "BRIDGES": self._bridges,
            "RECEIVERS": {"in": {"bridge": "rabbit", "source": site.source, "queue": "orders"}},
        }
        with site.running():
            yield

    def turn_until(self, condition: Callable[[], Any]) -> None:
        """Let the worker work until something is so."""

        def turned() -> Any:
            if not self.worker.turn():
                self.worker.runtime.fetcher.look(full_scan=True)
            return condition()

        wait_until(turned)

    def shows(self, state: str, *words: str) -> bool:
        """Whether row, panel and finding say this of the only connection, without a credential."""
        found = BridgeLink.objects.filter(state=state).first()
        if found is None:
            return False
        if not all(word in found.error for word in words):
            return False
        told = [finding.sentence for finding in find("default")]
        panel = unescape(show(None, Queue.objects.get(name=QUEUE)))  # type: ignore[arg-type] # it has no request
        assert all(word in text for word in words for text in (panel, *told))
        assert SECRET not in f"{found.error} {panel} {told}"
        return state == "connected" or bool(told)

    def end(self) -> list[Any]:
        """Forward the rest, and return the bodies that have arrived, each once by its id. None was charged."""
        self.turn_until(lambda: not Message.objects.exclude(state=State.DEAD).exists())
        self.worker.stop()
        self.worker.run()
        assert not Attempt.objects.exists()
        first: dict[str, Any] = {}
        for message in self.broker.taken(self.queue):
            first.setdefault(message.properties["message_id"], json.loads(message.body))
        assert History.objects.filter(outcome=History.Outcome.FORWARDED).count() == len(first)
        return list(first.values())


@pytest.fixture
def broker(node: Encrypted) -> Iterator[OtherBroker]:
    """The node, without what is deleted after a test: the node itself is."""
    found = OtherBroker(node.url)
    yield found
    with suppress(Exception):  # the test may have closed it
        found.connection.release()


@pytest.fixture
def make(settings: Settings, broker: OtherBroker) -> Iterator[Callable[..., Out]]:
    """Makes sites that forward to the node."""
    made: list[Out] = []

    def make_one(url: Any, **options: Any) -> Out:
        made.append(Out(settings, broker, url, **options))
        return made[-1]

    yield make_one
    for out in made:
        out.broker.connection.release()


@pytest.mark.parametrize("shortage", ["memory", "disk"])
def test_a_broker_with_an_alarm_is_waited_for(node: Encrypted, make: Callable[..., Out], shortage: str) -> None:
    out = make(node.url)
    out.turn_until(lambda: out.shows("connected"))
    getattr(node, f"run_short_of_{shortage}")()
    try:
        for number in range(150):
            publish(QUEUE, number)
        # The broker says so when something is published.
        out.turn_until(lambda: out.shows("blocked"))
        [finding] = find("default")
        assert finding.sentence.startswith("The broker takes no messages for now.")
    finally:
        node.end_shortages()
    assert sorted(out.end()) == [*range(150)]


def test_a_broker_that_closes_in_the_middle_of_confirms_gets_the_rest_again(
    node: Encrypted, make: Callable[..., Out], caplog: pytest.LogCaptureFixture
) -> None:
    out = make(node.url, in_flight=10)
    for number in range(100):
        publish(QUEUE, number, group_key=f"g{number % 7}")
    for wanted in (70, 40):
        out.turn_until(lambda: Message.objects.count() <= wanted)  # noqa: B023 - called at once
        node.close_connections()
        out.turn_until(lambda: "CONNECTION_FORCED" in caplog.text)
        caplog.clear()
    out.broker = OtherBroker(node.url)
    arrived = out.end()
    for group in range(7):
        assert [number for number in arrived if number % 7 == group] == [*range(group, 100, 7)]
    assert "guest" not in caplog.text


def test_a_password_that_is_changed_is_used_without_a_restart(
    node: Encrypted, make: Callable[..., Out], caplog: pytest.LogCaptureFixture
) -> None:
    known = ["guest"]
    out = make(lambda: node.url.replace("guest:guest", f"guest:{known[-1]}"))
    site = Site(out.settings, out.broker, "default")
    try:
        with out.receiving(site):
            wait_until(lambda: site.shows("receives"))
            out.turn_until(lambda: out.shows("connected"))
            node.change_password(SECRET)
            node.close_connections()
            publish(QUEUE, 7)
            out.turn_until(lambda: out.shows("away", "ACCESS_REFUSED"))
            wait_until(lambda: site.shows("away"))
            assert "ACCESS_REFUSED" in site.state().problem

            known.append(SECRET)
            wait_until(lambda: site.shows("receives"))
            out.turn_until(lambda: out.shows("connected") and not Message.objects.exists())
    finally:
        node.change_password("guest")
        known.append("guest")
    out.broker = OtherBroker(node.url)
    assert out.end() == [7]
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("host", "own", "words"),
    [
        ("localhost", True, ""),
        ("localhost", False, "CERTIFICATE_VERIFY_FAILED"),
        ("127.0.0.1", True, "certificate is not valid for '127.0.0.1'"),
    ],
    ids=["right", "of another authority", "for another host"],
)
def test_only_a_broker_with_the_right_certificate_gets_and_gives_messages(
    node: Encrypted, make: Callable[..., Out], host: str, own: bool, words: str
) -> None:
    url = f"amqps://guest:guest@{host}:{node.encrypted_port}//"
    tls = {"ca_certs": str(node.certificate if own else node.other_certificate)}
    out = make(url, ssl=tls)
    publish(QUEUE, 7)
    if words:
        out.turn_until(lambda: out.shows("away", words))
        out.worker.stop()
        out.worker.run()
        assert Message.objects.get().state == State.READY
    else:
        assert out.end() == [7]
    Message.objects.all().delete()
    site = Site(out.settings, out.broker, "default")
    site.send(8)
    with out.receiving(site):
        if words:
            wait_until(lambda: site.shows("away"))
            assert words in site.state().problem
        else:
            wait_until(lambda: site.counted() == 1)


def test_a_message_that_is_too_large_for_the_broker_is_a_dead_letter_and_the_others_arrive(
    node: Encrypted, make: Callable[..., Out]
) -> None:
    node.take_at_most(1000)
    try:
        out = make(node.url)
        for number in range(20):
            publish(QUEUE, "x" * 2000 if number == 7 else number)
        assert sorted(out.end()) == [number for number in range(20) if number != 7]
    finally:
        node.take_at_most(2**27)
    dead = Message.objects.get()
    assert dead.attempts == 1
    assert dead.dead_reason.startswith("refused by the bridge rabbit: PreconditionFailed")
    assert "message size" in dead.dead_reason


def test_one_node_of_several_is_enough_for_both_ways(node: Encrypted, make: Callable[..., Out]) -> None:
    away = [f"amqp://guest:guest@127.0.0.1:{find_free_port()}//" for _ in range(2)]
    url = ";".join([*away, node.url])
    out = make(url)
    publish(QUEUE, 7)
    assert out.end() == [7]
    site = Site(out.settings, out.broker, "default")
    site.send(8)
    with out.receiving(site):
        wait_until(lambda: site.counted() == 1)
