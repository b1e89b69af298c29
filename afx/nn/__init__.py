"""Neural networks: activations, losses, layers as frozen classes, initialisers, convolution and pooling.

Layouts: batches are float[batch, *spatial, channels], sequences float[..., time, features]; kernels
float[*window, channels/groups, out]; weights of `Linear` float[inputs, outputs].
"""

from typing import TYPE_CHECKING, NoReturn

from afx.nn import initializers
from afx.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    leaky_relu,
    mish,
    relu6,
    selu,
    soft_sign,
)
from afx.nn.attention import (
    DecoderBlock,
    KeyValueCache,
    MultiHeadAttention,
    TransformerBlock,
    dot_product_attention,
    rotary,
)
from afx.nn.convolution import Conv, ConvTranspose, pixel_shuffle, upsample
from afx.nn.initializers import (
    delta_orthogonal,
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    kaiming_normal,
    kaiming_uniform,
    lecun_normal,
    lecun_uniform,
    normal,
    orthogonal,
    truncated_normal,
    uniform,
    variance_scaling,
)
from afx.nn.layer import count_parameters, describe, layer, summary, train
from afx.nn.linear import MLP, Dropout, Embedding, EmbeddingBag, Identity, Linear, PReLU, Sequential, one_hot
from afx.nn.losses import (
    contrastive,
    cosine_distance,
    cosine_similarity,
    ctc,
    dice,
    focal,
    gaussian_nll,
    hinge,
    huber,
    info_nce,
    kl_divergence,
    log_cosh,
    mae,
    margin_ranking,
    mse,
    poisson_nll,
    sigmoid_binary_cross_entropy,
    softmax_cross_entropy,
    triplet,
)
from afx.nn.metrics import (
    Calibration,
    accuracy,
    calibration,
    calibration_error,
    confusion_matrix,
    f1_score,
    log_loss,
    precision,
    r2_score,
    recall,
    roc_auc,
    top_k_accuracy,
)
from afx.nn.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm, SpectralNorm, WeightNorm
from afx.nn.recurrent import GRU, LSTM, RNN, Bidirectional, GRUCell, LSTMCell, LSTMState, RNNCell
from afx.ops.elementwise.arithmetic import log_sigmoid, sigmoid, softplus
from afx.ops.elementwise.trigonometry import tanh
from afx.ops.nn.activations import log_softmax, relu, silu, softmax, standardize
from afx.ops.nn.convolution import conv, conv_transpose
from afx.ops.nn.pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool

__all__ = [
    "GRU",
    "LSTM",
    "MLP",
    "RNN",
    "BatchNorm",
    "Bidirectional",
    "Calibration",
    "Conv",
    "ConvTranspose",
    "DecoderBlock",
    "Dropout",
    "Embedding",
    "EmbeddingBag",
    "GRUCell",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "KeyValueCache",
    "LSTMCell",
    "LSTMState",
    "LayerNorm",
    "Linear",
    "MultiHeadAttention",
    "PReLU",
    "RMSNorm",
    "RNNCell",
    "Sequential",
    "SpectralNorm",
    "TransformerBlock",
    "WeightNorm",
    "accuracy",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "calibration",
    "calibration_error",
    "celu",
    "confusion_matrix",
    "contrastive",
    "conv",
    "conv_transpose",
    "cosine_distance",
    "cosine_similarity",
    "count_parameters",
    "ctc",
    "delta_orthogonal",
    "describe",
    "dice",
    "dot_product_attention",
    "elu",
    "f1_score",
    "focal",
    "gaussian_nll",
    "gelu",
    "glorot_normal",
    "glorot_uniform",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "he_normal",
    "he_uniform",
    "hinge",
    "huber",
    "info_nce",
    "initializers",
    "kaiming_normal",
    "kaiming_uniform",
    "kl_divergence",
    "layer",
    "leaky_relu",
    "lecun_normal",
    "lecun_uniform",
    "log_cosh",
    "log_loss",
    "log_sigmoid",
    "log_softmax",
    "mae",
    "margin_ranking",
    "max_pool",
    "mish",
    "mse",
    "normal",
    "one_hot",
    "orthogonal",
    "pixel_shuffle",
    "poisson_nll",
    "precision",
    "r2_score",
    "recall",
    "relu",
    "relu6",
    "roc_auc",
    "rotary",
    "selu",
    "sigmoid",
    "sigmoid_binary_cross_entropy",
    "silu",
    "soft_sign",
    "softmax",
    "softmax_cross_entropy",
    "softplus",
    "standardize",
    "summary",
    "tanh",
    "top_k_accuracy",
    "train",
    "triplet",
    "truncated_normal",
    "uniform",
    "upsample",
    "variance_scaling",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers shall go on to refuse names that are not there

    def __getattr__(name: str) -> NoReturn:
        from afx.other_names import missing_name

        raise missing_name(__name__, name)
