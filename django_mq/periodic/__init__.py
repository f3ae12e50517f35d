"""Periodic messages: rows that say when a message is published, again and again.

ticks.py       the times of a cron line or an interval: the only file that calls the library
values.py      what may be said of a periodic message
decorator.py   ``@periodic``: what code declares
models.py      the rows, and their last runs
marks.py       what tells the messages of a tick from others, also those of retries
publisher.py   publishes a tick: a message, a Celery task or a Django task
duty.py        what the maintenance does: publish what is due soon
releases.py    whether this process has the code of the newest declarations
editor.py      what operators do: change, pause, resume, run now
declared.py    how rows follow the code
extension.py   how all this enters
"""
