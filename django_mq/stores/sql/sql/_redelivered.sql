w.redelivered
