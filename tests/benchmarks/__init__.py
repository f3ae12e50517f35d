"""Measurements: ``mq_bench`` itself, and what is compared with other products."""
