"""Options that extensions declare are checked, written, shown and read as those of django_mq are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from django_mq import conf
from django_mq.delivery.consumer import handlers
from django_mq.delivery.consumer.handlers import consumer
from django_mq.delivery.operator.drift import differences
from django_mq.delivery.operator.queue_editor import create_queue, edit_queue
from django_mq.delivery.queues import declare, record_of
from django_mq.engine.options import Option
from django_mq.errors import ConfigurationError
from django_mq.models import Queue
from django_mq.seams.extension import Extension
from django_mq.stores.registry import MEMORY, shared_store
from tests.admin.conftest import site  # noqa: F401 - a fixture
from tests.admin.test_queues import form_data
from tests.commands.conftest import run  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from tests.commands.conftest import Run

PER_MINUTE = Option(
    name="shop_per_minute",
    type="int | None",
    label="most messages a minute",
    help="Most messages that are delivered in a minute.",
    section="Shop",
    least=1,
)
TONE = Option(
    name="shop_tone",
    type="str",
    default="calm",
    label="tone",
    help="How to speak.",
    section="Limits",
    choices={"calm": "calm", "loud": "loud"},
)
LABEL = Option(name="shop_label", type="str", default="", help="What to print.", length=10)
SECONDS = Option(name="SHOP_SECONDS", type="float", default=2.5, help="How long.", least=1)
SHOP = Extension(name="shop", queue_options=(PER_MINUTE, TONE), handler_options=(LABEL,), settings=(SECONDS,))


@pytest.fixture(autouse=True)
def _extended(settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "EXTENSIONS": [f"{__name__}.SHOP"]}


def load(settings: Settings, **given: Any) -> conf.Settings:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **given}
    return conf.load()


def test_a_setting_of_an_extension_has_its_default_or_what_is_given(settings: Settings) -> None:
    assert SECONDS.value_in(conf.load()) == 2.5

    assert SECONDS.value_in(load(settings, SHOP_SECONDS=4)) == 4


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"SHOP_SECONDS": "4"}, "SHOP_SECONDS is '4'; it must be of type float"),
        ({"SHOP_SECONDS": 0.5}, "SHOP_SECONDS is 0.5; use 1 to"),
        ({"SHOP_MINUTES": 4}, "Unknown settings in DJANGO_MQ: SHOP_MINUTES"),
        ({"QUEUES": {"orders": {"shop_per_minute": 0}}}, "shop_per_minute is 0; use 1 to 2147483647, or None"),
        ({"QUEUES": {"orders": {"shop_tone": "shrill"}}}, "shop_tone is 'shrill'; use one of calm, loud"),
        ({"QUEUES": {"orders": {"shop_size": 1}}}, r"QUEUES\['orders'\]\['shop_size'\]"),
    ],
)
def test_a_wrong_value_is_refused_as_any_other(settings: Settings, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        load(settings, **given)


def test_a_queue_keeps_the_option_and_an_operator_changes_it(database: str, settings: Settings) -> None:
    store = shared_store(database)
    load(settings, QUEUES={"orders": {"shop_per_minute": 5, "backoff_ticks_per_second": 10}})
    declare(store, "orders")
    assert PER_MINUTE.value_in(record_of(store, "orders")) == 5

    edit_queue("orders", {"shop_per_minute": 7, "shop_tone": "loud"}, using=database)

    record = record_of(store, "orders")
    assert (PER_MINUTE.value_in(record), TONE.value_in(record), record.backoff_ticks_per_second) == (7, "loud", 10)
    assert [str(each) for each in differences(using=database)] == [
        "shop_per_minute is 7, and DJANGO_MQ['QUEUES'] says 5"
    ]
    with pytest.raises(ConfigurationError, match="shop_per_minute is 'many'; it must be of type int"):
        edit_queue("orders", {"shop_per_minute": "many"}, using=database)
    with pytest.raises(ConfigurationError, match="shop_per_minute is 0; use 1 to"):
        create_queue("mails", {"shop_per_minute": 0}, using=database)


def test_a_queue_in_memory_has_it_too(settings: Settings) -> None:
    store = shared_store(MEMORY)
    store.queues.declare("in_memory", load(settings, QUEUES={"q": {"shop_per_minute": 5}}).QUEUES["q"].as_dict())

    assert PER_MINUTE.value_in(record_of(store, "in_memory")) == 5
    store.deletions.delete_queue("in_memory")


@pytest.mark.django_db
def test_a_value_that_the_option_does_not_take_is_read_as_the_default_and_can_be_set_right() -> None:
    Queue.objects.create(name="orders", other_options={"shop_per_minute": "many", "of_tomorrow": 1})

    assert PER_MINUTE.value_in(record_of(shared_store("default"), "orders")) is None
    edit_queue("orders", {"shop_tone": "loud"}, using="default")
    edit_queue("orders", {"shop_per_minute": 3}, using="default")

    row = Queue.objects.get()
    assert row.other_options == {"of_tomorrow": 1, "shop_per_minute": 3, "shop_tone": "loud"}


@pytest.mark.django_db
def test_the_command_takes_and_shows_it(run: Run) -> None:  # noqa: F811
    run("mq_queue", "create", "orders", "--shop-per-minute=5")
    run("mq_queue", "edit", "orders", "--shop-tone=loud")

    shown = json.loads(run("mq_queue", "show", "orders", "--json"))["options"]
    assert (shown["shop_per_minute"], shown["shop_tone"], shown["max_attempts"]) == (5, "loud", 10)


@pytest.mark.django_db
def test_the_admin_shows_and_changes_it(admin_client: Client) -> None:
    queue = Queue.objects.create(name="orders")
    address = reverse("admin:django_mq_queue_change", args=[queue.pk])

    page = admin_client.get(address).content.decode()
    assert ("Most messages a minute" in page, "delivered in a minute" in page, ">Shop<" in page) == (
        True,
        True,
        True,
    )

    wrong = admin_client.post(address, form_data(shop_per_minute=0, shop_tone="loud")).content.decode()
    assert "greater than or equal to 1" in wrong
    admin_client.post(address, form_data(shop_per_minute=6, shop_tone="loud", max_dead_letter_cycles=20))

    assert Queue.objects.get().other_options == {"shop_per_minute": 6, "shop_tone": "loud"}


def test_a_handler_has_the_option(settings: Settings) -> None:
    try:

        @consumer("labelled", shop_label="blue")
        def handle(message: Any) -> None:
            """Nothing."""

        [handler] = handlers._handlers["labelled"]
        assert LABEL.value_in(handler) == "blue"
        with pytest.raises(ConfigurationError, match="shop_label of the handler of 'labelled' is 5; it must be"):
            consumer("labelled", shop_label=5)
        with pytest.raises(ConfigurationError, match="has no option 'shop_lable'"):
            consumer("labelled", shop_lable="blue")
    finally:
        handlers.forget("labelled")


@pytest.mark.django_db
def test_a_user_who_may_only_view_sees_it(client: Client, django_user_model: Any) -> None:
    queue = Queue.objects.create(name="orders", other_options={"shop_per_minute": 77})
    user = django_user_model.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_queue"))
    client.force_login(user)

    page = client.get(reverse("admin:django_mq_queue_change", args=[queue.pk])).content.decode()

    assert ("ost messages a minute" in page, ">77<" in page) == (True, True)


@pytest.mark.django_db
def test_without_the_extension_the_value_stays(settings: Settings, admin_client: Client) -> None:
    queue = Queue.objects.create(name="orders", other_options={"shop_per_minute": 77})
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "EXTENSIONS": []}
    address = reverse("admin:django_mq_queue_change", args=[queue.pk])

    page = admin_client.get(address).content.decode()
    admin_client.post(address, form_data(max_attempts=3, max_dead_letter_cycles=20))
    edit_queue("orders", {"levels": 3}, using="default")

    queue.refresh_from_db()
    assert "shop_per_minute" not in page
    assert (queue.max_attempts, queue.levels, queue.other_options) == (3, 3, {"shop_per_minute": 77})
