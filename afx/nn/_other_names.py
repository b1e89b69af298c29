"""Names of other libraries: afx's calls for them."""

__all__ = ["OTHER_NAMES"]

LINEAR = "nn.Linear.create(key, inputs, outputs)"
CLASS = "a frozen attrs class of layers and arrays, with a method __call__"
OTHER_NAMES = {
    "AdaptiveAvgPool2d": "nn.adaptive_avg_pool(x, positions)",
    "AvgPool2d": "nn.avg_pool(x, window)",
    "BCEWithLogitsLoss": "nn.sigmoid_binary_cross_entropy(logits, targets)",
    "BatchNorm1d": "nn.BatchNorm.create(channels)",
    "BatchNorm2d": "nn.BatchNorm.create(channels)",
    "CTCLoss": "nn.ctc(logits, labels)",
    "Conv1d": "nn.Conv.create(key, (3,), channels, out)",
    "Conv2d": "nn.Conv.create(key, (3, 3), channels, out)",
    "Conv3d": "nn.Conv.create(key, (3, 3, 3), channels, out)",
    "ConvTranspose2d": "nn.ConvTranspose.create(key, (3, 3), channels, out)",
    "CrossEntropyLoss": "nn.softmax_cross_entropy(logits, targets)",
    "Dense": LINEAR,
    "ELU": "nn.elu",
    "Flatten": "a function that returns x.reshape(x.shape[0], -1)",
    "GELU": "nn.gelu",
    "HuberLoss": "nn.huber(predictions, targets)",
    "L1Loss": "nn.mae(predictions, targets)",
    "LeakyReLU": "nn.leaky_relu",
    "MSELoss": "nn.mse(predictions, targets)",
    "MaxPool2d": "nn.max_pool(x, window)",
    "Module": CLASS,
    "ModuleList": "a tuple of layers",
    "MultiheadAttention": "nn.MultiHeadAttention.create(key, features, heads)",
    "Parameter": "an array in a field",
    "ReLU": "nn.relu",
    "SiLU": "nn.silu",
    "Sigmoid": "nn.sigmoid",
    "Softmax": "nn.softmax",
    "Tanh": "nn.tanh",
    "TransformerEncoderLayer": "nn.TransformerBlock.create(key, features, heads)",
    "cross_entropy": "nn.softmax_cross_entropy(logits, targets)",
    "hard_swish": "nn.hard_silu",
    "swish": "nn.silu",
    "xavier_normal": "nn.glorot_normal",
    "xavier_uniform": "nn.glorot_uniform",
}
