"""Batches: of sets on the device, of pictures decoded as they are read, of sentences."""
