"""Figures for Prometheus, latency first. Needs ``pip install django-mq[prometheus]``.

collector.py  reads the figures, a few indexed statements for each scrape
view.py       serves them to a scrape
"""
