IN %(ids)s
