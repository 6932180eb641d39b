"""Which framework, synchronisation and architecture trains this network fastest, and why?"""
