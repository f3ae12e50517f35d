(m.group_key IS NULL OR m.group_key NOT IN (SELECT value FROM json_each(%(groups)s)))
