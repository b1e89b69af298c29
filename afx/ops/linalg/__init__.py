"""Linear algebra: products, factorizations, solvers, functions of matrices."""
