"""Pages that show more than one table.

page.py     the overview: all queues, the last hour, the alerts
alerts.py   the alerts as sentences
past.py     the charts of all queues, or of one
charts.py   lines over time and heat maps as SVG
marks.py    what happened that may explain a change
by_type.py  what runs and what fails, by type
space.py    the space that the tables take
"""
