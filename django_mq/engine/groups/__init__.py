"""Messages that belong together go to one consumer: who owns which group, and until when."""
