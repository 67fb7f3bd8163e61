"""What runs leave on disk: the one definition of record, experiment and column."""
