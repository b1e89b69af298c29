"""Random sampling: counter-based bits and the samplers that read them."""
