"""EXTENSIONS names values by their paths; a mistake is an error before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.acts.extension import EXTENSION as ACTS
from django_mq.alerts.extension import EXTENSION as ALERTS
from django_mq.batches.extension import EXTENSION as BATCHES
from django_mq.bridges.extension import EXTENSION as BRIDGES
from django_mq.checks import check_settings
from django_mq.deaths import EXTENSION as DEATHS
from django_mq.diagnosis.state.running import EXTENSION as RUNNING
from django_mq.durable.extension import EXTENSION as DURABLE
from django_mq.errors import UnusableExtension
from django_mq.failures.extension import EXTENSION as FAILURES
from django_mq.integrations.celery.beat import EXTENSION as BEAT
from django_mq.periodic.extension import EXTENSION as PERIODIC
from django_mq.replies.extension import EXTENSION as REPLIES
from django_mq.results.extension import EXTENSION as RESULTS
from django_mq.rollups.extension import EXTENSION as ROLLUPS
from django_mq.search.extension import EXTENSION as SEARCH
from django_mq.tenants.extension import EXTENSION as TENANTS
from django_mq.tiles.extension import EXTENSION as TILES
from django_mq.typed.extension import EXTENSION as TYPED
from django_mq.unique.extension import EXTENSION as UNIQUE
from django_mq.workflows.extension import EXTENSION as WORKFLOWS
from tests.seams import values

if TYPE_CHECKING:
    from pytest_django import Settings

HERE = "tests.seams.values"
#: Those of django_mq itself, which the settings do not name.
OURS = (
    TYPED,
    DEATHS,
    UNIQUE,
    DURABLE,
    FAILURES,
    RUNNING,
    PERIODIC,
    SEARCH,
    ALERTS,
    ROLLUPS,
    TENANTS,
    ACTS,
    TILES,
    REPLIES,
    WORKFLOWS,
    RESULTS,
    BATCHES,
    BRIDGES,
    BEAT,
)


def test_without_extensions_nothing_is_added_to_those_of_django_mq(settings: Settings) -> None:
    settings.DJANGO_MQ = {}

    assert conf.load().EXTENSIONS == OURS


def test_the_extensions_have_the_order_of_the_setting_and_follow_its_changes(settings: Settings) -> None:
    settings.DJANGO_MQ = {"EXTENSIONS": [f"{HERE}.SECOND", f"{HERE}.FIRST"]}
    assert (values.SECOND, values.FIRST, *OURS) == conf.load().EXTENSIONS

    settings.DJANGO_MQ = {"EXTENSIONS": [f"{HERE}.FIRST"]}
    assert (values.FIRST, *OURS) == conf.load().EXTENSIONS


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("shop.extension", "EXTENSIONS is 'shop.extension'; give a list"),
        ([3], "EXTENSIONS has 3; give the dotted path"),
        (["nowhere"], "'nowhere', which cannot be imported: nowhere doesn't look like a module path"),
        (["nowhere.EXTENSION"], "which cannot be imported: No module named 'nowhere'"),
        ([f"{HERE}.NONE"], "which cannot be imported: Module .* does not define"),
        (["tests.seams.broken.EXTENSION"], "which cannot be imported: division by zero"),
        ([f"{HERE}.SOMETHING"], "which is no Extension, but 3"),
        ([f"{HERE}.NAMELESS"], "whose name is ''; use an identifier"),
        ([f"{HERE}.LISTING"], r"whose duties are \[\]; give a tuple of values of Duty"),
        ([f"{HERE}.BARE"], "which has <built-in function print> in duties; give values of Duty"),
        ([f"{HERE}.LOOSE"], "which has 'print' in findings; give functions"),
        ([f"{HERE}.ENDLESS_DUTY"], "whose duty 'all' has a limit below 1"),
        ([f"{HERE}.STRAY"], "which has a panel for the page 'worker'; use one of queue, message"),
        (
            [f"{HERE}.UNCALLED"],
            "whose middleware builtins.int has none of the methods publish, process, aprocess, group",
        ),
        (
            [f"{HERE}.ASYNCHRONOUS"],
            "has a process that is a coroutine function, which does not run when it is called; name it aprocess",
        ),
        ([f"{HERE}.UNTOLD"], "whose listening has the name 'the shop'; use an identifier of at most 50"),
        ([f"{HERE}.CAPITAL"], "whose name is 'Shop'; use an identifier in small letters"),
        ([f"{HERE}.FOREIGN"], "whose option 'OTHER_SECONDS' has another extension's name; begin it with 'SHOP_'"),
        ([f"{HERE}.NAMESAKE"], "whose option 'max_attempts' is one of django_mq"),
        ([f"{HERE}.UNSHOWN"], "whose option 'shop_size' has no label or no section"),
        ([f"{HERE}.LISTED"], "whose option 'SHOP_SIZES' has the type 'list'; use one of int, float, str, bool"),
        ([f"{HERE}.ENDLESS"], "whose option 'SHOP_TEXT' is a text; give its length, or choices"),
        ([f"{HERE}.MISSING"], "whose option 'SHOP_SIZE' has the default None; it must be of type int"),
        ([f"{HERE}.FIRST", f"{HERE}.SAME"], "2 extensions with the name 'first'"),
    ],
)
def test_a_wrong_extension_is_refused_and_reported(settings: Settings, given: Any, sentence: str) -> None:
    settings.DJANGO_MQ = {"EXTENSIONS": given}

    with pytest.raises(UnusableExtension, match=sentence):
        conf.load()
    assert [message.id for message in check_settings()] == ["django_mq.E013"]
