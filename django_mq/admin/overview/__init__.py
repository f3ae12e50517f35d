"""Pages that show more than one table.

page.py     the overview: all queues, the last hour, the alerts
alerts.py   the alerts as sentences
charts.py   lines over time as SVG
by_type.py  what runs and what fails, by type
space.py    the space that the tables take
log.py      what operators did
"""
