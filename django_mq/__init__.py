"""Durable message queues with broker semantics inside the Django database.

A message's way, with the file of each step:

1. ``delivery/publisher.py``  check, encode, and write the row in the caller's transaction
2. ``stores/sql/sql/publish.sql``  the row itself: place, level, state
3. ``notifications/``  a hint after commit, which may be lost
4. ``delivery/consumer/runtime.py``  a woken session asks for as much as its credit allows
5. ``stores/<database>/sql/claim.sql``  rows leased to the session, in strict order
6. ``delivery/consumer/prefetch.py``  what is claimed waits in order, within its handler's credit
7. ``delivery/consumer/pool.py``  to a free thread
8. ``delivery/consumer/attempt.py``  one attempt, as a column of named steps
9. ``delivery/consumer/settlements.py``  outcomes gathered
10. ``stores/<database>/sql/settle.sql``  written together with the next claim

Celery workers join at step 4 through ``integrations/celery/``. This module imports
nothing, so that ``import django_mq.engine`` needs no Django and no Celery.
"""

__version__ = "0.1.0"
