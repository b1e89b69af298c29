"""Rules: optimizers, and the transformations of gradients that they are made of."""
