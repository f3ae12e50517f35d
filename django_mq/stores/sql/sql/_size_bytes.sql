octet_length(m.body)
