"""Figures, tables and the book."""
