"""Programs that ``tests.benchmarks.pages`` runs, each with the settings of one kind of database."""
