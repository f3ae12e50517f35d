greatest({end}, coalesce({shortest}, {end}))
