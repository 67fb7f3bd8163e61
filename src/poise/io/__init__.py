"""Files on disk: whole or not there, JSON, locks, pictures decoded with care."""
