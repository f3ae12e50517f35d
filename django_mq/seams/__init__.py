"""Where other packages enter: an ``Extension`` says what it adds, and the setting ``EXTENSIONS`` names it.

extension.py  what an extension may add
middleware.py what is around publishing, and around an attempt
arguments.py  what a handler is called with
ends.py       which listenings are told which ends
findings.py   what an examination found, and how to mend it
registry.py   imports the extensions, and the middleware of the settings
"""
