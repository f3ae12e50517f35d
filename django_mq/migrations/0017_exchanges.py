"""The tables of exchanges, and of their bindings to each other."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

#: See 0002_whole_indexes.
SPELT = "ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Orders" and "orders" apart."""
    if not schema_editor.connection.features.supports_partial_indexes:
        for table in ("django_mq_exchange", "django_mq_exchangebinding"):
            schema_editor.execute(SPELT.format(table=table))


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0016_attempt_error_path")]
    operations = [
        migrations.CreateModel(
            name="Exchange",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("name", models.CharField(max_length=200, unique=True)),
                ("exchange_type", models.CharField(max_length=10)),
                ("alternate", models.CharField(blank=True, default="", max_length=200)),
            ],
            options={"db_table": "django_mq_exchange"},
        ),
        migrations.CreateModel(
            name="ExchangeBinding",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("exchange", models.CharField(max_length=200)),
                ("pattern", models.CharField(blank=True, default="", max_length=200)),
                ("selector", models.CharField(blank=True, default="", max_length=1000)),
                ("destination", models.CharField(max_length=200)),
            ],
            options={
                "db_table": "django_mq_exchangebinding",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("exchange", "pattern", "destination"), name="django_mq_exchangebinding_once"
                    )
                ],
            },
        ),
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
