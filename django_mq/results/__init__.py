"""Results of Celery's tasks, their groups and chords, in the database of the queues.

models.py     the tables
connections.py  the connection over which a worker writes
results.py    writes, reads and forgets results; saves groups
chords.py     counts the members of chords
waiting.py    wakes what waits for results
pruning.py    deletes what has expired
extension.py  how they enter: a duty

``django_mq/integrations/celery/result_backend.py`` is the backend that Celery loads.
"""
