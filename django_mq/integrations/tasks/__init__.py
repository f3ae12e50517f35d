"""Django's own tasks, run by our workers: the backend is ``django_mq.integrations.tasks.MQBackend``.

A task is a message: its type is the task's name, its body is an *envelope* with the arguments, its id is
the result's. ``backend`` publishes, ``running`` is the handler of every queue of a backend, ``results``
puts together what the message, the row of the result and the history know.

``django.tasks`` is in Django from 6.0 on; before, the package ``django-tasks`` offers the same.
"""

from django_mq.integrations.tasks.backend import MQBackend

__all__ = ["MQBackend"]
