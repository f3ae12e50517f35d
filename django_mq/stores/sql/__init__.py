"""What the SQL stores share: the same named statements run in the same order.

``store.py`` says what a store is: parts, one for each subject. A call of the store goes to the part that has a
method of its name. In the order in which a message meets them: ``database.py`` runs statements, ``queues.py``
declares, ``publications.py`` writes, ``admission.py`` applies the rules for what comes, ``sessions.py`` opens
sessions, ``claims.py`` leases, ``messages.py`` writes verdicts, moves and dead-letters, ``maintenance.py`` tidies
up, ``browser.py`` looks, ``operations.py`` does what operators ask for, ``volatile.py`` carries transient queues.
The folders of the databases hold the SQL, and subclasses of the parts that work differently there.
"""

from django_mq.stores.sql.store import SQLStore

__all__ = ["SQLStore"]
