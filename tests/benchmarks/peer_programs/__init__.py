"""One program per peer. Each runs in a throw-away environment and knows nothing of django_mq.

    python PROGRAM.py DATABASE_URL REDIS_URL AMOUNT   ->   {"one": 1.0, ...}

Each is used as its documentation recommends for speed: its own batches, if it has any. ``common.py`` says
what is asked of each.
"""
