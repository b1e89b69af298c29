"""StableHLO: a traced function as the text that XLA and its kin read (https://openxla.org/stablehlo/spec)."""
