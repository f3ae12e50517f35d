"""Django's own tasks, run by our workers: the backend is ``django_mq.integrations.tasks.MQBackend``.

A task is a message. Its type is the task's name, its body an *envelope* with the arguments, its id the result's.

    backend.py   publishes
    options.py   what a task says beyond Django's interface
    envelope.py  a task as the body of a message, and back
    running.py   the handler of every queue of a backend
    results.py   a task's result, from the message, the row of the result and the history
    compat.py    Django's names: ``django.tasks`` is in Django from 6.0 on, before in the package ``django-tasks``
"""

from django_mq.integrations.tasks.backend import MQBackend
from django_mq.integrations.tasks.options import options

__all__ = ["MQBackend", "options"]
