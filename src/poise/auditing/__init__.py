"""Does a trained model's sensitivity follow utility? Measured, judged, compared; drawn by `reporting`."""
