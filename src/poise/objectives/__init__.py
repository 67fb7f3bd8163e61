"""Training objectives: four methods with one signature, and the contrast that two of them share."""
