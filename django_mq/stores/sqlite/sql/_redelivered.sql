-- The index's condition says "redelivered" or "redelivered = 1" according to the Django that made it: a statement has to say both.
(w.redelivered AND w.redelivered = 1)
