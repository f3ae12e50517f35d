"""Figures for Prometheus, latency first. Needs ``pip install django-mq[prometheus]``.

view.py       the page that Prometheus scrapes
collector.py  answers scrapes in time, even if the database does not answer
figures.py    reads the figures with a few indexed statements
"""
