= ANY(%(ids)s::bigint[])
