"""Neural networks: activations, losses, layers as frozen classes, initialisers, convolution and pooling.

Layouts: batches are float[batch, *spatial, channels]; kernels float[*window, channels/groups, out]; weights of `Linear`
float[inputs, outputs].
"""

from afx.nn.activations import elu, gelu, leaky_relu, log_softmax, relu, silu, softmax
from afx.nn.initializers import glorot_uniform, he_normal, lecun_normal, normal, uniform
from afx.nn.layers import MLP, Conv, Embedding, LayerNorm, Linear
from afx.nn.losses import huber, mse, sigmoid_binary_cross_entropy, softmax_cross_entropy
from afx.ops.elementwise.exponential import log_sigmoid, sigmoid, softplus
from afx.ops.elementwise.trigonometry import tanh
from afx.ops.nn.convolution import conv
from afx.ops.nn.normalization import standardize
from afx.ops.nn.pooling import avg_pool, max_pool

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
