"""The state of queues, workers and tables.

overview.py  every queue with its depth and its consumers
fleet.py     the worker sessions and their consumers
groups.py    the groups of a queue and the workers that own them
shares.py    the keys that share a queue, and their weights
waiting_keys.py the keys over their limits, and what is parked for them
limiting.py  what limits the delivery of a queue, and how full its limits by key are
flow.py      how fast messages finish, from one look to the next
by_type.py   what runs and what fails, by queue and type
running.py   what runs now, and what runs unusually long
alerts.py    what needs a look, from figures that are known already
sentences.py the same in sentences
limit_words.py what limits a queue, in a sentence
extensions.py what extensions find
obstacles.py the paused or full queues to which a redrive returns messages
health.py    the answer for a probe
question.py  a question to the database with an answer in time
overdue.py   how many rows of the past mq_prune would delete
"""
