"""Tests of portable bits: functions beside exact values, and digests over processors."""
