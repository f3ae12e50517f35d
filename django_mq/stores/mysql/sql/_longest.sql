{now} + INTERVAL round(least(q.max_ttl_seconds, 2e11) * 1000000) MICROSECOND
