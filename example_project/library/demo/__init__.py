"""``manage.py demo``, file by file.

run.py        the steps in their order
saying.py     what it says
lock.py       one demo at a time
fresh.py      tables, an empty index, a login
processes.py  what the demo starts, it ends
worker.py     the workers, started again whenever they die
rabbitmq.py   the RabbitMQ of ``--through``, and what went through it
site.py       the site of ``--serve``
watching.py   the progress bar, until the summary is written
outcomes.py   what becomes of a file, and the sums over it
stored.py     what the index holds in the end
direct.py     the same without the queue
checking.py   both must be equal
report.py     rates, waits and dead letters, from the queue's own history
"""
