"""Reads the figures that ``pipeline.insights`` has written, without Spark.

reading.py  hours, summaries and causes
figures.py  the forecast
"""
