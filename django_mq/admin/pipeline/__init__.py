"""What the Spark pipeline has written: no page starts Spark.

admin.py     batches of the archive, and loads
insights.py  the past of the queues, hour by hour
"""
