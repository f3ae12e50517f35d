coalesce(n.expires_at, {now} + coalesce(n.ttl_seconds, q.ttl_seconds) * interval '1 second')
