"""What is minimised: four peers with one signature, and the contrast two of them share."""
