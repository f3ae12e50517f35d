"""Tenants: the figures of the past and of what waits, by the values of one search key.

declared.py   which key names the tenants, and the queues that have it
duty.py       sums minutes up by tenant, adds them up to longer steps, counts what waits, deletes old figures
figures.py    the tenants with most messages, failures or time in a span, for the page and the command
extension.py  the setting, and the duties
"""
