"""Run handlers that are coroutine functions. In the order a message meets the files:

pool.py       the pool of a worker: one event loop, and a task for each attempt
threads.py    the threads in which attempts use the database
watcher.py    a thread that names a coroutine which keeps the loop from running
"""
