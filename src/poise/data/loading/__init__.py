"""Batches for training and testing: from sets on the device, streamed images, and sentences."""
