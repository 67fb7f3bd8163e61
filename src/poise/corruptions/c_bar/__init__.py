"""C-bar: ten corruptions for CIFAR and ten for ImageNet that are unlike the 19 (Mintun, Kirillov, Xie 2021)."""
