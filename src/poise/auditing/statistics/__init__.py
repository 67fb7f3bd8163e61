"""Statistics of an audit: numbers with intervals, and tests over examples."""
