(m.group_key IS NULL OR coalesce(m.group_key NOT IN %(groups)s, true))
