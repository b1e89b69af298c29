"""Neural networks: activations, losses, layers as frozen classes, initialisers, convolution and pooling.

Layouts: batches are float[batch, *spatial, channels], sequences float[..., time, features]; kernels
float[*window, channels/groups, out]; weights of `Linear` float[inputs, outputs].
"""

from afx.errors import refuse_names
from afx.nn import (
    activations as _activations,
    attention as _attention,
    convolution as _convolution,
    initializers,
    layer as _layer,
    linear as _linear,
    losses as _losses,
    metrics as _metrics,
    normalization as _normalization,
    recurrent as _recurrent,
)
from afx.nn.activations import *
from afx.nn.attention import *
from afx.nn.convolution import *
from afx.nn.initializers import *
from afx.nn.layer import *
from afx.nn.linear import *
from afx.nn.losses import *
from afx.nn.metrics import *
from afx.nn.normalization import *
from afx.nn.recurrent import *
from afx.ops import log_sigmoid, sigmoid, softplus, tanh
from afx.ops.nn.activations import log_softmax, relu, silu, softmax, standardize
from afx.ops.nn.convolution import conv, conv_transpose
from afx.ops.nn.pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool
from afx.ops.reductions.cumulative import log1mexp, logmeanexp

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "conv",
    "conv_transpose",
    "initializers",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "max_pool",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "standardize",
    "tanh",
]
__all__ += _activations.__all__
__all__ += _attention.__all__
__all__ += _convolution.__all__
__all__ += initializers.__all__
__all__ += _layer.__all__
__all__ += _linear.__all__
__all__ += _losses.__all__
__all__ += _metrics.__all__
__all__ += _normalization.__all__
__all__ += _recurrent.__all__

refuse_names(__name__)
