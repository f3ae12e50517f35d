"""Carry the tenant. Your code sets it where it knows the tenant of a request: ``current_tenant.set("acme")``."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from django.db import connections

from django_mq.errors import Reject
from django_mq.middleware.header import HeaderMiddleware, SyncHeaderMiddleware, holding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

#: The tenant for which the code of this context works; blank for none.
current_tenant: ContextVar[str] = ContextVar("django_mq_tenant", default="")


class TenantMiddleware(HeaderMiddleware):
    """Give handlers the ``current_tenant`` of the code that has published the message."""

    header = "tenant"

    def value(self) -> str:
        return current_tenant.get()

    def entered(self, value: str) -> AbstractContextManager[None]:
        return holding(current_tenant, value)


class TenantSchemaMiddleware(SyncHeaderMiddleware):
    """Run handlers in the schema of django-tenants in which the message was published.

    The schema belongs to the connection, and so to the thread: a coroutine function holds a thread of its own.
    """

    header = "tenant"

    def __init__(self) -> None:
        # Of a package that is not there unless the project has it.
        from django_tenants import utils  # noqa: PLC0415

        self._tenants: Any = utils

    def value(self) -> str:
        connection: Any = connections[self._tenants.get_tenant_database_alias()]
        schema: str = connection.schema_name
        return schema

    @contextmanager
    def entered(self, value: str) -> Iterator[None]:
        if value != self._tenants.get_public_schema_name() and not self._is_tenant(value):
            # The search path would lead to the public schema.
            raise Reject(f"No tenant has the schema {value!r}; create it, and redrive the message.")
        with self._tenants.schema_context(value):
            yield

    def _is_tenant(self, schema: str) -> bool:
        tenants = self._tenants.get_tenant_model().objects.using(self._tenants.get_tenant_database_alias())
        found: bool = tenants.filter(schema_name=schema).exists()
        return found
