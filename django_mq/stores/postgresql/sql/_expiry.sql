least(CASE WHEN {end} IS NOT NULL THEN greatest({end}, {now} + q.min_ttl_seconds * interval '1 second') END,
          {now} + q.max_ttl_seconds * interval '1 second')
