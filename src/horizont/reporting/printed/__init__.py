"""The book on paper: the same pages, set by Typst."""

from horizont.reporting.printed.book import print_book

__all__ = ["print_book"]
