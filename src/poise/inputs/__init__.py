"""Models and data from outside: what a user names on the command line, as classifiers and labelled examples."""
