"""Bridges to other brokers. In the order in which messages meet the files:

declared.py  the bridges that the settings name
checks.py    what is wrong with them, for ``manage.py check``

``engine/decisions/bridges.py`` decides what a bridge may have, and how its address is shown. Nothing here imports
Kombu before a bridge is used.
"""
