"""django-tasks-db, the database backend of Django's tasks: no batches, one worker, one task at a time."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import threading

import django
from common import SAMPLES, Arrivals, Stopwatch, answer, given
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

#: Its worker polls, and a publish waits for the next poll: fewer pick-ups will do.
SAMPLES = SAMPLES // 10


def configure(url: str) -> None:
    where = conninfo_to_dict(url)
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    database = {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": None}
    settings.configure(
        DATABASES={"default": database | {names[key]: value for key, value in where.items() if key in names}},
        INSTALLED_APPS=["django_tasks", "django_tasks_db"],
        TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}},
        USE_TZ=True,
        LOGGING_CONFIG=None,
    )
    django.setup()


configure(given()[0])

from django.core.management import call_command  # noqa: E402 - needs settings
from django_tasks import task  # noqa: E402 - as above
from django_tasks_db.management.commands.db_worker import Worker  # noqa: E402 - as above

arrivals = Arrivals()


@task
def nothing(n: int) -> None:
    """Do nothing."""


@task
def arrive() -> None:
    arrivals.stamp()


def worker(*, batch: bool) -> Worker:
    return Worker(
        queue_names=["default"],
        interval=1,
        batch=batch,
        backend_name="default",
        startup_delay=False,
        max_tasks=None,
        worker_id="peer",
        excluded_queue_names=[],
    )


def main() -> None:
    amount = given()[2]
    call_command("migrate", verbosity=0)
    watch = Stopwatch()
    for number in range(amount):
        nothing.enqueue(number)
    one = watch.rate(amount)
    watch = Stopwatch()
    worker(batch=True).run()
    drain = watch.rate(amount)
    idle = worker(batch=False)
    thread = threading.Thread(target=idle.run)
    thread.start()
    try:
        waits = arrivals.times(arrive.enqueue, SAMPLES)
    finally:
        idle.running = False
        thread.join()
    answer(one=one, many=None, drain=drain, waits=waits)


if __name__ == "__main__":
    main()
