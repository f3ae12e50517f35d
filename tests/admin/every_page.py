"""Asks for every page of the admin in a process of its own, where nothing of Spark can be imported: ``-m``.

It prints a line for each page, then what was imported of Spark and which programs were started: none of either.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARK = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "numpy"})
#: What Python says of itself when it starts a program.
STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.spawn", "os.system", "os.exec", "os.fork"})
QUEUE = "orders"


class Blocked:
    """Finds no module of Spark, even if it is installed."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Return that others may find it, or say that there is none."""
        if name.partition(".")[0] in SPARK:
            raise ModuleNotFoundError(f"{name} is no module of a web process.")


def addresses() -> Iterator[str]:
    """Yield every list, its form for something new, the pages of figures and the insights."""
    from django.contrib import admin
    from django.urls import reverse

    models = [model._meta for model in admin.site._registry if model._meta.app_label == "django_mq"]
    for meta in models:
        yield reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
        yield reverse(f"admin:{meta.app_label}_{meta.model_name}_add")
    for name in ("queue_overview", "queue_overview_json", "queue_charts", "history_types", "history_types_json"):
        yield reverse(f"admin:django_mq_{name}")
    insights = reverse("admin:django_mq_insighthour_changelist")
    for query in (f"queue={QUEUE}", "days=1", "format=json", f"queue={QUEUE}&format=csv"):
        yield f"{insights}?{query}"


def fill() -> None:
    """Write what the insights show, and a queue."""
    from django.utils import timezone

    from django_mq.models import InsightCause, InsightHour, Queue

    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    Queue.objects.get_or_create(name=QUEUE)
    InsightHour.objects.create(queue_name=QUEUE, hour=now, arrivals=3, wait_histogram={"84": 3}, wait_p95=1.0)
    InsightCause.objects.create(queue_name=QUEUE, day=now.date(), dead=True, reason="boom", messages=1)


def main() -> None:
    """Ask, and tell."""
    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type] - all that importing asks of it is there
    started: list[str] = []
    sys.addaudithook(lambda event, _: started.append(event) if event in STARTS else None)
    django.setup()
    from django.contrib.auth import get_user_model
    from django.test import Client

    fill()
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("operator"))
    for address in addresses():
        sys.stdout.write(f"{client.get(address).status_code} {address}\n")
    loaded = sorted(SPARK & {name.partition(".")[0] for name in sys.modules})
    sys.stdout.write(f"imported: {loaded}\nstarted: {started}\n")


if __name__ == "__main__":
    main()
