"""The app in the menu: in groups, in the order of use, the overview first, Spark's pages only where Spark is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin import site

from django_mq.admin.menu import GROUPS
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.django_db
INDEX = "/admin/"
SPARK = {"Insights", "Archive", "Bulk jobs"}


def menu(client: Client, address: str = INDEX) -> list[str]:
    """Return the names of our entries, as the menu of this page has them."""
    return [name for _, names in groups(client, address) for name in names]


def groups(client: Client, address: str = INDEX) -> list[tuple[str, list[str]]]:
    """Return the groups of the menu with the names of their entries."""
    ours = [one for one in client.get(address).context["available_apps"] if one["app_label"] == "django_mq"]
    return [(str(group["name"]), [model["name"] for model in group["models"]]) for group in ours]


def test_the_menu_is_in_the_order_of_use_on_every_page(browse: Client) -> None:
    names = menu(browse)

    assert names[:4] == ["Overview", "Messages", "Dead letters", "Queues"]
    assert menu(browse, list_of("queue")) == names


def test_each_model_of_the_admin_has_a_place_in_the_menu(browse: Client) -> None:
    ours = {model.__name__ for model in site._registry if model._meta.app_label == "django_mq"}
    placed = [name for _, names in GROUPS for name in names]

    assert ours - set(placed) == set()
    assert len(placed) == len(set(placed))


def test_the_menu_has_groups_and_leaves_out_those_without_an_entry(
    browse: Client, login_with: Callable[..., Client]
) -> None:
    (first, names), (second, _), *_ = groups(browse)
    assert (first, names[0], second) == ("Message queues", "Overview", "What has happened")

    alone = login_with("view_periodicmessage")
    assert groups(alone) == [("Schedules and rules", ["Periodic messages"])]


def test_the_app_opens_with_the_overview(browse: Client) -> None:
    page = browse.get(INDEX).content.decode()

    assert f'<a href="{list_of("queue")}overview/" class="section"' in page
    assert f"{list_of('message')}?state=letters" in page


def test_the_menu_has_only_what_its_user_may_view(login_with: Callable[..., Client]) -> None:
    assert menu(login_with("view_message")) == ["Messages", "Dead letters"]


def test_the_pages_of_spark_are_in_the_menu_only_where_spark_is_installed(
    browse: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.admin.menu.has_spark", lambda: True)
    with_it = menu(browse)
    monkeypatch.setattr("django_mq.admin.menu.has_spark", lambda: False)
    without = menu(browse)

    assert set(with_it) - set(without) == SPARK
    assert browse.get(list_of("archivebatch")).status_code == 200


def test_the_page_of_a_queue_has_tabs_for_what_its_user_may_view(
    make: Make, login_with: Callable[..., Client]
) -> None:
    tabs = login_with("view_queue", "view_message").get(page_of(make.queue())).context["tabs"]

    addresses = {tab.label: tab.address for tab in tabs}
    assert list(addresses) == ["Now and settings", "Charts", "Messages", "Retrying", "Dead letters"]
    assert addresses["Dead letters"] == f"{list_of('message')}?queue=orders&state=letters"


def test_each_tab_of_a_queue_leads_to_a_page_with_the_same_tabs_and_is_marked_there(
    make: Make, browse: Client
) -> None:
    tabs = browse.get(page_of(make.queue())).context["tabs"]

    for tab in tabs:
        there = browse.get(tab.address)
        assert [(each.label, each.address) for each in there.context["tabs"]] == [tuple(each[:2]) for each in tabs]
        assert f'aria-current="page">{tab.label}</a>' in there.content.decode()


def test_a_further_filter_keeps_the_tabs_and_marks_none(make: Make, browse: Client) -> None:
    make.queue()

    tabs = browse.get(f"{list_of('message')}?queue=orders&priority=9").context["tabs"]

    assert tabs
    assert not any(tab.is_current for tab in tabs)


@pytest.mark.parametrize("filters", ["", "?queue=typo", "?queue=%00"])
def test_a_list_of_no_existing_queue_has_no_tabs(make: Make, browse: Client, filters: str) -> None:
    make.queue()

    assert "mq-tabs" not in browse.get(f"{list_of('message')}{filters}", follow=True).content.decode()


def test_the_charts_of_a_queue_exist_only_for_a_queue_that_does(make: Make, browse: Client) -> None:
    make.queue()

    assert browse.get(f"{list_of('queue')}charts/?queue=orders").content.decode().count("<figure") == 9
    assert browse.get(f"{list_of('queue')}charts/?queue=typo").status_code == 404


def test_the_menu_marks_the_dead_letters_where_the_list_shows_them(make: Make, browse: Client) -> None:
    make.message()

    assert "mq-letters" in browse.get(f"{list_of('message')}?state=letters").content.decode()
    assert "mq-letters" not in browse.get(list_of("message")).content.decode()
