max({end}, coalesce({shortest}, {end}))
