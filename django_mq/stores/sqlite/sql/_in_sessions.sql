IN (SELECT value FROM json_each(%(sessions)s))
