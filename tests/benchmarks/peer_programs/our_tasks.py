"""django_mq: tasks of Django's interface that do nothing, enqueued one by one, and drained by one worker."""

from __future__ import annotations

import django
from common import Stopwatch, answer, given
from django.conf import settings


def main() -> None:
    amount = given()[2]
    ours = "django_mq.integrations.tasks.MQBackend"
    settings.TASKS = {"default": {"BACKEND": ours, "QUEUES": ["default"], "OPTIONS": {"CREDIT": 1000}}}
    settings.DATABASES["default"]["CONN_MAX_AGE"] = None  # as the peer has it
    django.setup()
    from our_tasks_work import nothing

    from django_mq.delivery.consumer.garbage_collector import collect_less_often
    from django_mq.delivery.consumer.handlers import registered
    from django_mq.delivery.consumer.worker import Worker
    from django_mq.delivery.queues import declare
    from django_mq.integrations.tasks.running import serve_all
    from django_mq.stores.registry import shared_store

    declare(shared_store("default"), "default")
    serve_all()
    watch = Stopwatch()
    for number in range(amount):
        nothing.enqueue(number)
    one = watch.rate(amount)
    collect_less_often()
    watch = Stopwatch()
    Worker(registered("default"), threads=1).run(until_empty=True)  # as the peer's worker runs one at a time
    answer(one=one, many=None, drain=watch.rate(amount), waits=[])


if __name__ == "__main__":
    main()
