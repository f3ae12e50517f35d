"""Figures for Prometheus, latency first. Needs ``pip install django-mq[prometheus]``.

figures.py    reads the figures, a few indexed statements
collector.py  answers scrapes with them, in time whatever hangs
view.py       serves them to a scrape
"""
