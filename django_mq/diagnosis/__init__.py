"""What is going on, and what is wrong: all that looks and changes nothing, for pages, commands and probes alike.

How things stand
    overview.py     every queue with its depth and its consumers
    fleet.py        the worker sessions, and what they consume
    flow.py         how fast messages finish, from one look to the next
    series.py       the last hour or day, minute by minute
    by_type.py      what runs and what fails, by queue and type
    pruning.py      how much of the past is over its time
    space.py        the room that the tables take
    alerts.py     what is wrong with which queue, from figures that are there already
    health.py       is it well? a probe's question
    in_time.py      an answer in time, whatever hangs

Which messages
    choosing.py     those that somebody names, by ids or by filters
    narrowing.py    what each filter means
    terms.py        what a word that somebody looks for may name
    indexed.py      what indexes alone tell; slices.py and looking.py go through the rest bit by bit
    naming.py       a queue's name that somebody typed

What may be seen of one
    masking.py      what is hidden
    readable.py     a message as a JSON object; downloading.py many of them as a file
    copying.py      a message once more; task_ids.py where a task's id stands in it

The doctor
    doctor.py       all questions in order; a question that makes no sense any more is left out
    findings.py     one finding: what was looked at, what was found, how to mend it
    environment.py  the settings' checks and Redis
    database.py     the connection, the migrations, the clock
    tables.py       tables, columns, types and indexes as the migrations made them; privileges
    work.py         leases, orphans, unknown words, queues that do not move
"""
