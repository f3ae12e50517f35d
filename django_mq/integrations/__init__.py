"""Other packages that can use the queues. Each module here is imported only by projects that use its package."""
