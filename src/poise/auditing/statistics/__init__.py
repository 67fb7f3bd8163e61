"""The numbers of an audit, with intervals and tests over examples."""
