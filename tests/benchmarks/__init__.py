"""Measurements of ours (``python -m tests.benchmarks``), and what is compared with other products."""
