"""CIFAR-10 and CIFAR-100 (section 4.3): Tables 2 and 3, and controls."""
