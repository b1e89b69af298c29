"""Special functions: gamma, beta, error, Bessel and zeta functions."""
