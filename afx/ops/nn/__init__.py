"""Neural-network ops: activations, softmax, normalization, convolution, pooling."""
