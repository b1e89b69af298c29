"""Neural networks: activations, losses, layers as frozen classes, initialisers, convolution and pooling.

Layouts: batches are float[batch, *spatial, channels]; kernels float[*window, channels/groups, out]; weights of `Linear`
float[inputs, outputs].
"""

from afx.nn.activations import elu, gelu, leaky_relu, log_softmax, relu, silu, softmax
from afx.nn.initializers import glorot_uniform, he_normal, lecun_normal, normal, uniform
from afx.nn.layers import MLP, Conv, Embedding, LayerNorm, Linear
from afx.nn.losses import huber, mse, sigmoid_binary_cross_entropy, softmax_cross_entropy
from afx.ops.convolution import conv
from afx.ops.exponential import log_sigmoid, sigmoid, softplus
from afx.ops.pooling import avg_pool, max_pool
from afx.ops.standardizing import standardize
from afx.ops.trigonometry import tanh

__all__ = [
    "MLP",
    "Conv",
    "Embedding",
    "LayerNorm",
    "Linear",
    "avg_pool",
    "conv",
    "elu",
    "gelu",
    "glorot_uniform",
    "he_normal",
    "huber",
    "leaky_relu",
    "lecun_normal",
    "log_sigmoid",
    "log_softmax",
    "max_pool",
    "mse",
    "normal",
    "relu",
    "sigmoid",
    "sigmoid_binary_cross_entropy",
    "silu",
    "softmax",
    "softmax_cross_entropy",
    "softplus",
    "standardize",
    "tanh",
    "uniform",
]
