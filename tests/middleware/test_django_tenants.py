"""With django-tenants on PostgreSQL, a handler runs in the schema in which its message was published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import url_or_skip
from tests.docs.test_pages_as_printed import new_database
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.environment import Services

pytestmark = pytest.mark.once
pytest.importorskip("django_tenants")

SETTINGS = """
SECRET_KEY = "none"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django_tenants.postgresql_backend", "CONN_MAX_AGE": 60, **ADDRESS}}
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
SHARED_APPS = ["django_tenants", "django.contrib.contenttypes", "django_mq", "customers"]
TENANT_APPS = ["django.contrib.contenttypes", "shop"]
INSTALLED_APPS = [*SHARED_APPS, "shop"]
TENANT_MODEL, TENANT_DOMAIN_MODEL = "customers.Client", "customers.Domain"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DJANGO_MQ = {
    "QUEUES": {"orders": {}, "later": {}},
    "MIDDLEWARE": ["django_mq.middleware.tenant.TenantSchemaMiddleware"],
}
"""
FILES = {
    "customers/__init__.py": "",
    "customers/models.py": """
from django.db import models
from django_tenants.models import DomainMixin, TenantMixin


class Client(TenantMixin):
    auto_create_schema = True
    auto_drop_schema = True


class Domain(DomainMixin):
    pass
""",
    "shop/__init__.py": "",
    "shop/models.py": """
from django.db import models


class Order(models.Model):
    name = models.TextField()
""",
    "shop/consumers.py": """
import asyncio

from asgiref.sync import sync_to_async
from django.db import connection

from django_mq.api import consumer, publish
from shop.models import Order


@consumer("orders")
def place(message):
    Order.objects.create(name=f"{connection.schema_name} {message.body}")
    if message.body == "first":
        publish("orders", "second")


@consumer("later")
async def place_later(message):
    await asyncio.sleep(0)  # others begin
    schema = await sync_to_async(lambda: connection.schema_name)()
    await Order.objects.acreate(name=f"{schema} {message.body}")
""",
    "publish.py": """
import django
django.setup()
from django_tenants.utils import schema_context
from customers.models import Client
from django_mq.api import publish

for name in ("north", "south", "gone"):
    Client(schema_name=name).save()
    with schema_context(name):
        publish("orders", "first")
for number in range(3):
    for name in ("north", "south"):
        with schema_context(name):
            publish("later", number)
publish("orders", "public", headers={"tenant": "pg_catalog"})
Client.objects.get(schema_name="gone").delete()
""",
    "look.py": """
import json
import django
django.setup()
from django_tenants.utils import schema_context
from django_mq.models import Message
from shop.models import Order

found = {"dead": sorted(Message.objects.values_list("dead_reason", flat=True))}
for name in ("north", "south"):
    with schema_context(name):
        found[name] = list(Order.objects.order_by("name").values_list("name", flat=True))
print(json.dumps(found))
""",
}


def test_a_handler_runs_in_the_schema_of_its_publisher(
    services: Services, tmp_path: Path, django_db_blocker: Any
) -> None:
    with django_db_blocker.unblock():
        address = new_database(url_or_skip(services, "postgresql"), '"{}"')
    (tmp_path / "site_settings.py").write_text(f"ADDRESS = {address!r}\n{SETTINGS}")
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)

    def run(*command: str) -> str:
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "site_settings", "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-m", "django", "makemigrations", "customers", "shop", "--verbosity", "0")
    run("-m", "django", "migrate_schemas", "--shared", "--verbosity", "0")
    run("publish.py")
    run("-m", "django", "mq_worker", "--threads", "1", "--until-empty")

    found = json.loads(run("look.py"))
    assert found.pop("dead") == [
        f"Reject: No tenant has the schema '{name}'; create it, and redrive the message."
        for name in ("gone", "pg_catalog")
    ]
    words = ("0", "1", "2", "first", "second")
    assert found == {name: [f"{name} {word}" for word in words] for name in ("north", "south")}
