"""What is compiled for a GPU, and our own kernels."""
