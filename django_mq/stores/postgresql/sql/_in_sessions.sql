= ANY(%(sessions)s::bigint[])
