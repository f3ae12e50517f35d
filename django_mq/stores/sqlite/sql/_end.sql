coalesce(%(expires_at)s, %(ttl_seconds_from_now)s, {queue_expiry})
