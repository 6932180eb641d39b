"""The process that trains: a job file in, one framework, its part of a record out."""
