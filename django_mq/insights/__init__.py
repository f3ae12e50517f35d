"""Figures of the past, read from their tables: no Spark, and no look at a live queue.

``pipeline.insights`` writes them; the admin and the exports read them here.
"""
