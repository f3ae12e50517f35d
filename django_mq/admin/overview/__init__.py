"""Pages that show more than one table.

page.py     the overview: tiles, alerts, all queues, the last hour
tiles.py    the tiles with their curves
alerts.py   the alerts as sentences
causes.py   the alerts by cause: since when, what happened before, what resolves them
snoozed.py  the alerts that are hidden for a time
past.py     the charts of all queues, or of one
charts.py   lines over time and heat maps as SVG
marks.py    what happened that may explain a change
by_type.py  what runs and what fails, by type
space.py    the space that the tables take
"""
