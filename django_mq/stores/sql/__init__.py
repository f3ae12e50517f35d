"""The parts that the stores of all databases share.

``store.py`` makes the parts and gives each the others that it calls. In the order in which a message meets them:
``database.py`` runs statements, ``queues.py`` declares, ``exchanges.py`` says what is bound, and carries
transient queues, ``publications.py`` writes, ``admission.py`` applies the rules of queues to new messages
(``capacities.py``, ``last_values.py`` and ``declared.py`` have some of them), ``sessions.py`` opens sessions,
``claims.py`` leases, ``settlements.py`` settles and gives back what sessions hold, ``messages.py`` changes rows,
``moves.py`` sends them to other queues, ``operations.py`` serves operators, ``deletions.py`` deletes queues,
``maintenance.py`` tidies up, ``retention.py`` sums up and forgets, ``browser.py`` reads, ``results.py`` keeps
the results of tasks, and ``server.py`` asks the database about itself. The folder of a database has its SQL, and
subclasses of parts that work differently there.
"""
