"""The parts that the stores of all databases share.

``store.py`` has the store: a call goes to the part with a method of its name. In the order in which a message
meets them: ``database.py`` runs statements, ``queues.py`` declares, ``exchanges.py`` says what is bound,
``publications.py`` writes, ``admission.py``
applies the rules of queues to new messages, ``sessions.py`` opens sessions, ``claims.py`` leases,
``messages.py`` settles and moves, ``declared.py`` asks messages by declared selectors, ``maintenance.py`` tidies
up, ``browser.py`` reads, ``operations.py`` serves operators, ``volatile.py`` carries transient queues. The
folder of a database has its SQL, and subclasses of parts that work differently there.
"""

from django_mq.stores.sql.store import SQLStore

__all__ = ["SQLStore"]
