"""Reductions: sums, extremes, moments, quantiles and cumulative ops."""
