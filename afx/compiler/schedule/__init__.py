"""Schedules: fusion, buffers and instructions that compute a graph."""
