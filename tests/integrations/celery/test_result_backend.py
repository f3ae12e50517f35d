"""``django-mq://`` as a result backend: what is read says what to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from celery import Celery

from django_mq.errors import ConfigurationError

if TYPE_CHECKING:
    from tests.integrations.celery.conftest import Rows


def note() -> None:
    """Do nothing: no worker runs it."""


@pytest.mark.parametrize("given", ["django-mq://", "django-mq:///jobs", "django-mq"])
def test_the_broker_as_result_backend_is_refused_before_a_task_is_published(
    url: str, rows: Rows, given: str
) -> None:
    with Celery("unit", broker=url, backend=given, set_as_current=False) as app:
        task = app.task(name="note", shared=False)(note)

        for use in (task.delay, lambda: app.AsyncResult("1").state, lambda: app.backend):
            with pytest.raises(ConfigurationError, match=f"'{given}', but .* keeps no results.* 'rpc://'"):
                use()

    assert not rows()
