"""What a trained classifier is worth: accuracy by class, and under corruptions."""
