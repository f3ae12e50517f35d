"""What the office keeps."""

from django.db import models


class Invoice(models.Model):
    """An invoice, and the task that will remind of it."""

    address = models.EmailField()
    account = models.CharField(max_length=40)
    state = models.CharField(max_length=20, default="new")
    reminder = models.UUIDField(null=True)

    def __str__(self) -> str:
        return f"Invoice {self.pk}"


class Export(models.Model):
    """A file that is written in the background, and how far it is."""

    pages = models.IntegerField()
    done = models.IntegerField(default=0)
    state = models.CharField(max_length=20, default="waiting")

    def __str__(self) -> str:
        return f"Export {self.pk}"
