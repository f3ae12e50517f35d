length(m.body)
