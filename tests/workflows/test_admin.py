"""The admin draws a workflow with the states of its steps, and retries, cancels and deletes it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.urls import reverse

from django_mq.acts.models import Act
from django_mq.admin.workflows.steps import MOST_SHOWN
from django_mq.api import delete_workflow
from django_mq.errors import WorkflowRefused
from django_mq.models import History, Message
from django_mq.workflows.models import StepRun, WorkflowRun

if TYPE_CHECKING:
    from uuid import UUID

    from django.test import Client

    from tests.workflows.conftest import Site

pytestmark = [
    pytest.mark.parametrize("committed_database", ["default"], indirect=True),
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.urls"),
]
LIST = reverse("admin:django_mq_workflowrun_changelist", urlconf="tests.urls")


def fail(_message: Any) -> None:
    raise ValueError("no")


def page_of(id_: UUID) -> str:
    return reverse("admin:django_mq_workflowrun_change", args=[id_])


def text(client: Client, address: str, **headers: str) -> str:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200, address
    return answer.content.decode()


@pytest.fixture
def browse(site: Site, client: Client) -> Client:
    """A client of a superuser."""
    client.force_login(User.objects.create_superuser("operator"))
    return client


def a_failed_run(site: Site) -> UUID:
    flow = site.workflow("<b>flow</b>")
    site.queue("work", fail)
    flow.step("<i>first</i>", "work")
    flow.step("second", site.queue("next"), after=["<i>first</i>"])
    flow.step("each", site.queue("item", lambda message: message.body or fail(message)), for_each=lambda _: [1, 0])
    id_ = flow.start(key="<u>17</u>", using=site.alias)
    site.work()
    return id_


def test_the_page_draws_the_graph_and_says_the_same_in_words(site: Site, browse: Client) -> None:
    id_ = a_failed_run(site)
    page = text(browse, page_of(id_))

    assert "&lt;i&gt;first&lt;/i&gt;" in page
    assert not re.search("<[biu]>(first|flow|17)", page)
    kinds = re.findall(r'class="mq-step mq-step-(\w+)" transform', page)
    assert sorted(kinds) == ["bad", "bad", "left"]
    assert "2 failed, 1 not run" in page
    assert "failed, 1 of 2, 1 failed" in page
    assert "each 1" in page
    listed = text(browse, LIST)
    assert "3 of 3 have ended" in listed
    assert "&lt;u&gt;17" in listed


def test_a_step_leads_to_its_message_and_the_message_to_its_workflow(site: Site, client: Client) -> None:
    id_ = a_failed_run(site)
    user = User.objects.create_user("ann", is_staff=True)
    client.force_login(user)

    def allow(*names: str) -> None:
        user.user_permissions.add(*Permission.objects.filter(codename__in=names))

    allow("view_workflowrun")
    message = Message.objects.get(queue__name="work")
    life = reverse("admin:django_mq_message_life", args=[message.message_id])
    assert life not in text(client, page_of(id_))
    allow("view_message", "view_history")
    assert life in text(client, page_of(id_))
    done = StepRun.objects.get(number=0).message_id
    history = reverse("admin:django_mq_history_change", args=[History.objects.get(message_id=done).pk])
    for address in (reverse("admin:django_mq_message_change", args=[message.pk]), history):
        page = text(client, address)
        assert page_of(id_) in page
        assert "of workflow &lt;b&gt;flow&lt;/b&gt;" in page
    user.user_permissions.remove(Permission.objects.get(codename="view_workflowrun"))
    assert "&lt;b&gt;flow" not in text(client, history)


def test_an_operator_cancels_retries_and_deletes_and_the_acts_are_recorded(site: Site, browse: Client) -> None:
    id_ = a_failed_run(site)
    chosen = {"_selected_action": [str(id_)]}
    confirmed = {**chosen, "confirmed": "yes"}

    asked = browse.post(LIST, {"action": "retry", **chosen}).content.decode()
    assert f"mq_workflows retry {id_}" in asked
    assert site.state(id_) == "failed"
    browse.post(LIST, {"action": "retry", **confirmed})
    assert site.state(id_) == "running"
    browse.post(LIST, {"action": "delete", **confirmed})
    browse.post(LIST, {"action": "cancel", **confirmed, "reason": "enough"})
    assert (site.state(id_), site.run(id_).reason) == ("cancelled", "enough")
    browse.post(LIST, {"action": "delete", **confirmed})

    assert not WorkflowRun.objects.exists()
    assert [act.name for act in Act.objects.order_by("id")] == ["retry", "cancel", "delete"]


def test_a_workflow_of_a_thousand_steps_is_a_few_boxes_and_a_bounded_table(site: Site, browse: Client) -> None:
    flow = site.workflow("wide")
    first = flow.step("first", site.queue("work"))
    flow.step("last", "work", after=[flow.step(f"step {number}", "work", after=[first]) for number in range(1000)])
    id_ = flow.start(using=site.alias)
    StepRun.objects.filter(name__in=["first", "step 7"]).update(state="succeeded")
    StepRun.objects.filter(name="step 8").update(state="failed")

    page = text(browse, page_of(id_))

    assert page.count('<rect class="mq-step-box"') == 4
    assert "1 succeeded" in page
    assert page.count('<th scope="row">') == MOST_SHOWN
    assert "902 more steps are not shown" in page
    assert len(page) < 300_000


def test_lists_are_found_by_ids_names_keys_and_states_and_refreshed(site: Site, browse: Client) -> None:
    id_ = a_failed_run(site)
    other = site.workflow("other")
    other.step("inner", site.workflow("inner"))
    inner = other.steps["inner"]
    from django_mq.workflows import registry

    registry.declared("inner").step("leaf", site.queue("leaf"))
    outside = other.start(using=site.alias)
    child = WorkflowRun.objects.get(name="inner")
    message_id = StepRun.objects.get(name="leaf").message_id
    cases = {
        f"q={id_}": {id_},
        f"q={message_id}": {child.pk},
        f"q={uuid4()}": set(),
        "q=17": {id_},
        "q=othe": {outside},
        "state=failed": {id_},
        "name=inner": {child.pk},
        "level=sub": {child.pk},
        "level=top": {id_, outside},
    }
    for query, expected in cases.items():
        found = set(re.findall(r'id="mq-row-([0-9a-f-]+)"', text(browse, f"{LIST}?{query}")))
        assert found == {str(each) for each in expected}, query
    assert inner.name in text(browse, page_of(child.pk))

    page = text(browse, LIST)
    versions = " ".join(re.findall(r'data-mq-parts?="([^"]+)"', page))
    rows = ",".join([str(id_), str(child.pk)])
    news = json.loads(text(browse, LIST, **{"X-MQ-Have": versions, "X-MQ-Rows": rows}))
    assert news["new"] == "1 new"
    assert "gone" not in news


def test_the_command_lists_shows_and_steers(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    id_ = a_failed_run(site)

    def call(*arguments: str) -> Any:
        call_command("mq_workflows", *arguments, "--json")
        return json.loads(capsys.readouterr().out)

    [listed] = call("list", "--state", "failed")
    assert (listed["id"], listed["step_count"], listed["reason"]) == (str(id_), 3, "<i>first</i>, each")
    [shown] = call("show", str(id_))
    assert [step["state"] for step in shown["steps"]] == ["failed", "blocked", "failed", "succeeded", "failed"]
    assert call("retry", str(id_)) == {"retried": [str(id_)], "left": {}}
    with pytest.raises(SystemExit):
        call("delete", str(id_), str(uuid4()))
    assert set(json.loads(capsys.readouterr().out)["left"]) >= {str(id_)}
    call("cancel", str(id_), "--reason", "enough")
    assert site.run(id_).reason == "enough"
    call("delete", str(id_))
    assert call("list") == []
    assert [act.name for act in Act.objects.order_by("id")] == ["retry", "cancel", "delete"]
    call_command("mq_workflows")
    assert "There are no workflows." in capsys.readouterr().out
    for wrong in (["retry"], ["list", str(id_)], ["show", str(id_)], ["show", "x"]):
        with pytest.raises(CommandError):
            call_command("mq_workflows", *wrong)


def test_a_workflow_that_runs_or_is_part_of_another_one_is_not_deleted(site: Site) -> None:
    inner, outer = site.workflow("inner"), site.workflow("outer")
    inner.step("leaf", site.queue("leaf"))
    outer.step("inner", inner)
    id_ = outer.start(using=site.alias)
    child = WorkflowRun.objects.get(name="inner").pk
    for run in (id_, child):
        with pytest.raises(WorkflowRefused):
            delete_workflow(run, using=site.alias)
    site.work()
    delete_workflow(id_, using=site.alias)
    assert not StepRun.objects.exists()
