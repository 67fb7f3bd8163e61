"""What is learned, and what is tested."""
