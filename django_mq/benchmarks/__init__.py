"""What ``manage.py mq_bench`` measures, each against a raw limit of the same run.

Absolute figures of one machine say little; ratios to what the same database does without us,
medians of repeats that take turns, can be compared. Everything is bounded in count and time,
uses queues and tables of its own, and cleans up.

    measuring.py       a measure, and how it is judged; repeats that take turns, medians
    targets.py         what should be reached, by kind of database
    ground.py          where it takes place; what a measuring function is given
    schema.py          tables of one's own on PostgreSQL, dropped as a whole
    raw_postgresql.py  the limits: plain SQL over plain connections
    raw_sqlite.py      as above, with the driver of SQLite
    raw_mysql.py       as above, with that of MariaDB and MySQL
    catalogue.py       names to measuring functions
    child.py           processes that work side by side
    publishing.py      publish and publish_many
    draining.py        the native worker, one process and two
    filling.py         millions of messages, made inside the database
    claiming.py        a claim at the head of a large queue
    churning.py        a claim after millions of messages have passed
    remembering.py     a worker's memory beside a large queue
    picking_up.py      the native worker when it is idle
"""
