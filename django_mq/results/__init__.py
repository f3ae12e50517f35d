"""Results of Celery's tasks, their groups and chords, in the database of the queues.

models.py     the tables
connections.py  the connection over which a worker writes
results.py    writes, reads and forgets results; saves groups
chords.py     counts the members of chords
places.py     which members of chords a message leads to
rosters.py    keeps the members of chords as they are published
lost.py       counts members whose messages end without a run
abandoned.py  counts members whose worker is gone
waiting.py    wakes what waits for results
canvas.py     the tasks that one first task has begun: a chain, a group, a chord
pruning.py    deletes what has expired
members.py    how many members of saved groups have ended
shown.py      what people see of a result
panel.py      the result on the page of its message
extension.py  how they enter: a duty, and panels

``django_mq/integrations/celery/result_backend.py`` is the backend that Celery loads.
"""
