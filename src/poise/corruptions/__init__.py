"""The 19 common corruptions (Hendrycks, Dietterich 2019): batched, on any device, bit-identical to the reference."""
