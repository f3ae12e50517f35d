coalesce(least({bounded}, coalesce({longest}, {bounded})), {longest})
