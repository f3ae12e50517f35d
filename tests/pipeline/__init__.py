"""The data pipeline. Tests that use ``spark`` share one session and start no other."""
