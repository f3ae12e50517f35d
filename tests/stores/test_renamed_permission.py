"""A permission that a migration renames stays with its users and groups."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection


@pytest.mark.django_db
def test_a_group_keeps_the_permission_to_redrive() -> None:
    migration = import_module("django_mq.migrations.0005_redrive_permission")
    group = Group.objects.create(name="operators")
    permission = Permission.objects.get(codename="redrive_message", content_type__app_label="django_mq")
    group.permissions.add(permission)

    editor = connection.SchemaEditorClass(connection)
    migration.backwards(None, editor)
    assert [each.codename for each in group.permissions.all()] == ["retry_message"]
    migration.forwards(None, editor)

    assert [(each.codename, each.name) for each in group.permissions.all()] == [migration.NEW]
