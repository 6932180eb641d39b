"""The operations of a study, for notebooks and the command line."""
