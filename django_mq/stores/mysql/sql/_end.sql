coalesce(n.expires_at, {now} + INTERVAL round(coalesce(n.ttl_seconds, least(q.ttl_seconds, 2e11)) * 1000000) MICROSECOND)
