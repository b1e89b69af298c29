"""Transformations: functions of functions, one a file."""
