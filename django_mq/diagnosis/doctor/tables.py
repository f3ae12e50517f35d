"""The tables: are they as the migrations made them, and may we use them?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import DatabaseError, connections, transaction

from django_mq.diagnosis.doctor.findings import notice, ok, problem
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import Field, Model

    from django_mq.diagnosis.doctor.findings import Finding

APP = "django_mq"
#: Kinds of field whose columns some database keeps alike: those of one family are never told apart.
FAMILIES = (
    {"AutoField", "BigAutoField", "SmallAutoField", "BigIntegerField", "IntegerField", "SmallIntegerField"}
    | {"PositiveBigIntegerField", "PositiveIntegerField", "PositiveSmallIntegerField", "BooleanField"},
    {"CharField", "TextField", "UUIDField", "JSONField", "BinaryField"},
    {"DateTimeField"},
    {"FloatField", "DecimalField"},
)
#: Each asks for one privilege on a table, and touches no row.
HARMLESS = {
    "SELECT": "SELECT {key} FROM {table} WHERE 1 = 0",
    "INSERT": "INSERT INTO {table} ({columns}) SELECT {columns} FROM {table} WHERE 1 = 0",
    "UPDATE": "UPDATE {table} SET {key} = {key} WHERE 1 = 0",
    "DELETE": "DELETE FROM {table} WHERE 1 = 0",
}


def look_at_shape(alias: str) -> Iterator[Finding]:
    """Compare tables, columns, their types and indexes with the models."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        tables = frozenset(connection.introspection.table_names(cursor))
    absent = [name for model in _models() for name in _absent(connection, model, tables)]
    if absent:
        mend = (
            "The migrations are recorded, and somebody has altered what they made. Check that a router lets them "
            f"onto {alias!r} (django_mq.routers.MQRouter); put back what is missing as manage.py sqlmigrate {APP} "
            f"shows it, or migrate {APP} to zero and back, which empties the queues."
        )
        yield problem("tables", f"Missing or altered: {', '.join(absent)}.", mend)
    else:
        yield ok("tables", "All migrations are applied, all tables, columns and indexes are there.")


def _models() -> Iterator[type[Model]]:
    return iter(apps.get_app_config(APP).get_models())


def _absent(connection: BaseDatabaseWrapper, model: type[Model], tables: frozenset[str]) -> Iterator[str]:
    """Yield what of a model's table is not there, or is of another type."""
    name = model._meta.db_table
    if name not in tables:
        yield name
        return
    with connection.cursor() as cursor:
        described = {
            column.name: column for column in connection.introspection.get_table_description(cursor, name)
        }
        indexes = connection.introspection.get_constraints(cursor, name)
    for field in sorted(model._meta.local_fields, key=lambda each: str(each.column)):
        if field.column not in described:
            yield f"{name}.{field.column}"
        elif _is_altered(connection, field, described[field.column]):
            yield f"{name}.{field.column} (its type)"
    yield from (
        f"the index {each} of {name}" for each in sorted(_wanted_indexes(connection, model) - set(indexes))
    )


def _wanted_indexes(connection: BaseDatabaseWrapper, model: type[Model]) -> set[str]:
    """Return the names of the indexes that the migrations have made on this kind of database."""
    made = (*model._meta.indexes, *model._meta.constraints)
    if connection.features.supports_partial_indexes:
        return {each.name for each in made}
    # There Django leaves out what has a condition or expressions, and the second migration makes some of it.
    plain = {each.name for each in made if not getattr(each, "condition", None) and not _expressions(each)}
    whole = import_module("django_mq.migrations.0002_whole_indexes")
    return plain | {
        name for name, (table, _) in (whole.WHOLE | whole.UNIQUE).items() if table == model._meta.db_table
    }


def _expressions(made: Any) -> bool:
    return bool(getattr(made, "expressions", ()))


def _is_altered(connection: BaseDatabaseWrapper, field: Field[Any, Any], column: Any) -> bool:
    """Whether the column's type is of another family than the field's; what nobody knows is none of ours."""
    try:
        kind = connection.introspection.get_field_type(column.type_code, column)
    except KeyError:
        return False
    wanted, found = _family(_own_type(field)), _family(kind)
    return wanted is not None and found is not None and wanted != found


def _own_type(field: Field[Any, Any]) -> str:
    target: Any = field
    while target.is_relation:
        target = target.target_field
    return str(target.get_internal_type())


def _family(kind: str) -> int | None:
    return next((number for number, family in enumerate(FAMILIES) if kind in family), None)


def look_at_privileges(alias: str) -> Iterator[Finding]:
    """Ask for every privilege that publishing and consuming need, without touching a row."""
    asked = [(model, privilege) for model in _models() for privilege in HARMLESS]
    if _refusal(alias, asked) is None:
        lacking = shared_store(alias).privilege_problems()
        yield from (notice("privileges", *lack) for lack in lacking)
        if not lacking:
            yield ok("privileges", "All tables may be read and written.")
        return
    # One transaction ends with the first refusal: each is asked for apart, to name them all.
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
    try:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            for model, privilege in asked:
                cursor.execute(_harmless(alias, model, privilege))
    except DatabaseError as error:
        return error
    return None


def _harmless(alias: str, model: type[Model], privilege: str) -> str:
    quote = connections[alias].ops.quote_name
    key = str(model._meta.pk.column)
    columns = ", ".join(quote(str(field.column)) for field in model._meta.local_concrete_fields)
    return HARMLESS[privilege].format(table=quote(model._meta.db_table), key=quote(key), columns=columns)
