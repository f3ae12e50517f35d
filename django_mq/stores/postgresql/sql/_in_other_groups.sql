(m.group_key IS NULL OR m.group_key <> ALL(%(groups)s::text[]))
