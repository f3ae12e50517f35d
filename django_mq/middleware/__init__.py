"""Middleware for the setting ``MIDDLEWARE``, named by their dotted paths.

header.py      a value of the publisher, carried in a header: the base of those that follow
tenant.py      the tenant; with django-tenants, its schema
locale.py      the language
request_id.py  the id of the request, which a logging filter adds to each line
encryption.py  bodies, encrypted
"""
