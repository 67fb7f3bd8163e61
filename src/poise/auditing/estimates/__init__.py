"""The numbers of an audit with their intervals, and the search for misused features."""
