(%(after)s::bigint IS NULL OR (m.level <= %(level)s::int AND (
        m.level < %(level)s::int OR (m.place, m.id) > (%(place)s::bigint, %(after)s::bigint))))
