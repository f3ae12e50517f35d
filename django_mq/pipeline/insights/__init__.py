"""Insights: figures of every hour, computed with Spark, stored in Django.

``figures`` computes one queue's day with numpy, without Spark. ``job`` calls it for every
queue and day, and ``tables`` stores the results.
"""
