"""Sorting: orders, partitions, searches and sets."""
