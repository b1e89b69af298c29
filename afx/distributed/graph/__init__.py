"""Graphs split over slots, equation by equation."""
