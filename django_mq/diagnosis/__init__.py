"""Read-only views of the queues, for the admin, the commands and the probes: nothing here changes a message.

state/     queues, workers, alerts, health
messages/  which messages are meant, and what may be seen of them
doctor/    the checks of ``mq_doctor``
language.py  numbers, durations and times in the language of the reader
"""
