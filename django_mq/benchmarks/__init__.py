"""What ``manage.py mq_bench`` measures, each against a raw limit of the same run.

Absolute figures of one machine say little; ratios to what the same database does without
us, medians of repeats that take turns, can be compared. Everything is bounded in count and
time, uses queues and tables of its own, and cleans up.

    measuring.py   repeats that take turns, medians
    raw.py         the limits: plain SQL over plain connections
    publishing.py  publish and publish_many
    draining.py    the native worker
    picking_up.py  the native worker when it is idle
    counter.py     what worker processes have done
    celery_app.py  the no-op project that measured Celery workers run
    workers.py     those workers, as subprocesses
    celery.py      drain, pick-up and memory of a Celery worker, beside Kombu's Redis transport
"""
