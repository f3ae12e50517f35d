"""What the queues' past says: figures of every hour, computed on Spark, kept in Django.

``figures`` counts one queue's day with numpy and knows no Spark; ``job`` gives it every
queue's every day, and ``tables`` keeps what it answers.
"""
