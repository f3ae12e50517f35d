"""Test handlers and tasks, without a worker, a sleep or a commit.

tester.py        what a test does with the queues: drain them, look at what was published, move the clock
drain.py         run what is ready, by the rules of the queues, in the thread of the test
drained.py       what a drain has done
session.py       one session of a drain, and what it claims
tasks.py         run a task of Celery
transactions.py  let code in the transaction of a ``TestCase`` see the ends of its own transactions

``django_mq/pytest_plugin.py`` has the fixture of pytest. Nothing else in django_mq imports this package.
"""

from django_mq.testing.drained import Drained, DrainedMessage
from django_mq.testing.tester import QueueTester, QueueTestMixin

__all__ = ["Drained", "DrainedMessage", "QueueTestMixin", "QueueTester"]
