"""A thousand steps beside each other, and a thousand behind each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.workflows.models import StepRun

if TYPE_CHECKING:
    from tests.workflows.conftest import Site

pytestmark = pytest.mark.on("postgresql")

MANY = 1000


@pytest.mark.once
@pytest.mark.parametrize("shape", ["items", "wide", "deep"])
def test_a_workflow_of_a_thousand_steps_ends(site: Site, shape: str) -> None:
    flow = site.workflow("flow")
    site.queue("work")
    if shape == "items":
        last = [flow.step("each", "work", for_each=lambda _results: list(range(MANY)))]
    elif shape == "wide":
        last = [flow.step(f"step {number}", "work") for number in range(MANY)]
    else:
        last = []
        for number in range(MANY):
            last = [flow.step(f"step {number}", "work", after=last)]
    flow.step("end", "work", after=last)
    id_ = flow.start(using=site.alias)
    site.work_in_threads()

    assert site.state(id_) == "succeeded"
    assert len(site.handled) == MANY + 1
    assert set(StepRun.objects.using(site.alias).values_list("state", flat=True)) == {"succeeded"}
