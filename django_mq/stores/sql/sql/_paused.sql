(q.paused AND coalesce(q.paused_until > {now}, true))
