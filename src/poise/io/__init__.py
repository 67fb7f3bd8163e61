"""Files on disk: atomic writes, JSON, locks and safe image decoding."""
