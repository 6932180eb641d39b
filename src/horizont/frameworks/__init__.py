"""The frameworks behind one protocol. Importing this package loads none of them."""
