"""Neural networks: activations, losses, layers as frozen classes, initialisers, convolution and pooling.

Layouts: batches are float[batch, *spatial, channels], sequences float[..., time, features]; kernels
float[*window, channels/groups, out]; weights of `Linear` float[inputs, outputs].
"""

from typing import TYPE_CHECKING

from afx.core.registry import find_homes
from afx.errors import refuse_names

if TYPE_CHECKING:  # the name table tells the rest where these stand
    from afx.nn import initializers as initializers
    from afx.nn.activations import *
    from afx.nn.attention import *
    from afx.nn.convolution import *
    from afx.nn.initializers import *
    from afx.nn.layers import *
    from afx.nn.linear import *
    from afx.nn.losses import *
    from afx.nn.metrics import *
    from afx.nn.normalization import *
    from afx.nn.recurrent import *
    from afx.ops import log_sigmoid as log_sigmoid, sigmoid as sigmoid, softplus as softplus, tanh as tanh
    from afx.ops.nn.activations import (
        log_softmax as log_softmax,
        relu as relu,
        silu as silu,
        softmax as softmax,
        standardize as standardize,
    )
    from afx.ops.nn.convolution import conv as conv, conv_transpose as conv_transpose
    from afx.ops.nn.pooling import (
        adaptive_avg_pool as adaptive_avg_pool,
        adaptive_max_pool as adaptive_max_pool,
        avg_pool as avg_pool,
        max_pool as max_pool,
    )
    from afx.ops.reductions.cumulative import log1mexp as log1mexp, logmeanexp as logmeanexp

refuse_names(__name__, "initializers", homes=find_homes(__name__))
