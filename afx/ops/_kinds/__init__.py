"""Kinds: functions that derive every rule of a primitive from one derivative formula."""
