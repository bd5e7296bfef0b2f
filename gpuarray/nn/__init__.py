"""Functions of neural networks: activations, normalization, attention, initializers.

Floor 6, loaded on first use. Everything is written over gpuarray.numpy, gpuarray.lax and
gpuarray.random.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.nn import initializers as initializers
from gpuarray.nn.activations import celu as celu
from gpuarray.nn.activations import elu as elu
from gpuarray.nn.activations import gelu as gelu
from gpuarray.nn.activations import glu as glu
from gpuarray.nn.activations import hard_sigmoid as hard_sigmoid
from gpuarray.nn.activations import hard_silu as hard_silu
from gpuarray.nn.activations import hard_swish as hard_swish
from gpuarray.nn.activations import hard_tanh as hard_tanh
from gpuarray.nn.activations import identity as identity
from gpuarray.nn.activations import leaky_relu as leaky_relu
from gpuarray.nn.activations import log1mexp as log1mexp
from gpuarray.nn.activations import log_sigmoid as log_sigmoid
from gpuarray.nn.activations import mish as mish
from gpuarray.nn.activations import relu as relu
from gpuarray.nn.activations import relu6 as relu6
from gpuarray.nn.activations import selu as selu
from gpuarray.nn.activations import sigmoid as sigmoid
from gpuarray.nn.activations import silu as silu
from gpuarray.nn.activations import soft_sign as soft_sign
from gpuarray.nn.activations import softplus as softplus
from gpuarray.nn.activations import sparse_plus as sparse_plus
from gpuarray.nn.activations import sparse_sigmoid as sparse_sigmoid
from gpuarray.nn.activations import squareplus as squareplus
from gpuarray.nn.activations import swish as swish
from gpuarray.nn.activations import tanh as tanh
from gpuarray.nn.attention import dot_product_attention as dot_product_attention
from gpuarray.nn.encoding import one_hot as one_hot
from gpuarray.nn.normalize import log_softmax as log_softmax
from gpuarray.nn.normalize import logmeanexp as logmeanexp
from gpuarray.nn.normalize import logsumexp as logsumexp
from gpuarray.nn.normalize import softmax as softmax
from gpuarray.nn.normalize import standardize as standardize
from gpuarray.nn.scaled import get_scaled_dot_general_config as get_scaled_dot_general_config
from gpuarray.nn.scaled import scaled_dot_general as scaled_dot_general
from gpuarray.nn.scaled import scaled_matmul as scaled_matmul

__getattr__ = _explain_names(__name__)
