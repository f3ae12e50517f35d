IN %(sessions)s
