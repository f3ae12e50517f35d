"""Where other packages enter: an ``Extension`` says what it adds, and the setting ``EXTENSIONS`` names it.

extension.py  what an extension may add
registry.py   imports the extensions
"""
