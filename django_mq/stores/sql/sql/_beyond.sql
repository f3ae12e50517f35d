(%(after)s IS NULL OR (m.level <= %(level)s AND (
        m.level < %(level)s OR (m.place, m.id) > (%(place)s, %(after)s))))
