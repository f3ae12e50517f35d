min({bounded}, coalesce({longest}, {bounded}))
