"""Real Celery workers on real databases: what a site's operator would see."""
