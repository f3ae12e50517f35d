"""The tables: are they as the migrations made them, and may this process use them?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from django.apps import apps
from django.db import DatabaseError, connections, transaction

from django_mq.seams.findings import notice, ok, problem
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import Model

    from django_mq.seams.findings import Finding

APP = "django_mq"
#: A statement for each privilege. It touches no row.
HARMLESS = {
    "SELECT": "SELECT {key} FROM {table} WHERE 1 = 0",
    "INSERT": "INSERT INTO {table} ({columns}) SELECT {columns} FROM {table} WHERE 1 = 0",
    "UPDATE": "UPDATE {table} SET {key} = {key} WHERE 1 = 0",
    "DELETE": "DELETE FROM {table} WHERE 1 = 0",
}


def look_at_shape(alias: str) -> Iterator[Finding]:
    """Compare tables, columns and indexes with the models."""
    shape = shared_store(alias).server.shape()
    tables = {table for table, _ in shape}
    absent = [name for model in _models() for name in _absent(connections[alias], model, shape)]
    if not any(model._meta.db_table in tables for model in _models()):
        mend = (
            f"Django also records migrations that a router keeps away. Let it allow them on {alias!r} "
            f"(django_mq.routers.MQRouter does if DJANGO_MQ['DATABASE'] is {alias!r}), then run manage.py migrate "
            f"{APP} zero --fake --database {alias} and manage.py migrate {APP} --database {alias}."
        )
        yield problem("tables", "The migrations are recorded, but there are no tables.", mend)
    elif absent:
        mend = (
            "The migrations are recorded, but what they made has been altered. Put back what is missing as "
            f"manage.py sqlmigrate {APP} shows it."
        )
        yield problem("tables", f"Missing: {', '.join(absent)}.", mend)
    else:
        yield ok("tables", "All migrations are applied, all tables, columns and indexes are there.")


def _models() -> Iterator[type[Model]]:
    return iter(apps.get_app_config(APP).get_models())


def _absent(connection: BaseDatabaseWrapper, model: type[Model], shape: Set[tuple[str, str]]) -> Iterator[str]:
    """Yield what of a model's table does not exist."""
    table = model._meta.db_table
    found = {name for of, name in shape if of == table}
    if not found:
        yield table
        return
    for column in sorted({str(field.column) for field in model._meta.local_fields} - found):
        yield f"{table}.{column}"
    for index in sorted(_wanted_indexes(connection, model) - found):
        yield f"the index {index} of {table}"


def _wanted_indexes(connection: BaseDatabaseWrapper, model: type[Model]) -> set[str]:
    """Return the names of the indexes that the migrations make on this kind of database."""
    made = (*model._meta.indexes, *model._meta.constraints)
    if connection.features.supports_partial_indexes:
        return {each.name for each in made}
    # There Django leaves out indexes with a condition or expressions; two migrations make them.
    plain = {
        each.name for each in made if not getattr(each, "condition", None) and not getattr(each, "expressions", ())
    }
    whole = import_module("django_mq.migrations.0002_whole_indexes")
    more = import_module("django_mq.migrations.0036_indexes_of_mariadb").MORE
    return plain | {
        name for name, (table, _) in (whole.WHOLE | whole.UNIQUE | more).items() if table == model._meta.db_table
    }


def look_at_privileges(alias: str) -> Iterator[Finding]:
    """Find privileges that publishing and consuming need and that the user does not have."""
    asked = [(model, privilege) for model in _models() for privilege in HARMLESS]
    if _refusal(alias, asked) is None:
        lacking = shared_store(alias).server.privilege_problems()
        yield from (notice("privileges", *lack) for lack in lacking)
        if not lacking:
            yield ok("privileges", "All tables may be read and written.")
        return
    # The first refusal ends a transaction, so each privilege is asked for in its own.
    refused, words = [], ""
    for model, privilege in asked:
        error = _refusal(alias, [(model, privilege)])
        if error is not None:
            refused.append(f"{privilege} on {model._meta.db_table}")
            words = str(error).strip().splitlines()[0]
    user = connections[alias].settings_dict["USER"]
    mend = (
        f"Grant SELECT, INSERT, UPDATE and DELETE on the tables of django_mq to {user}."
        if user
        else "Let the user of this process write to the database's file and its folder."
    )
    yield problem("privileges", f"Refused: {', '.join(refused)} (the database says: {words}).", mend)


def _refusal(alias: str, asked: Iterable[tuple[type[Model], str]]) -> DatabaseError | None:
    quote = connections[alias].ops.quote_name
    try:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            for model, privilege in asked:
                columns = ", ".join(quote(str(field.column)) for field in model._meta.local_concrete_fields)
                names = {"table": quote(model._meta.db_table), "key": quote(str(model._meta.pk.column))}
                cursor.execute(HARMLESS[privilege].format(columns=columns, **names))
    except DatabaseError as error:
        return error
    return None
