w.redelivered = true
