"""Random numbers from keys: the same key gives the same numbers, on every machine.

Floor 6. Every public name of the modules in this folder. Split a key before each use:
`key, subkey = random.split(key)`, then `random.normal(subkey, (3, 2))`.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.random.gamma import random_gamma_p as random_gamma_p
from gpuarray.random.basic import bernoulli as bernoulli
from gpuarray.random.basic import bits as bits
from gpuarray.random.basic import normal as normal
from gpuarray.random.basic import rademacher as rademacher
from gpuarray.random.basic import randint as randint
from gpuarray.random.basic import truncated_normal as truncated_normal
from gpuarray.random.basic import uniform as uniform
from gpuarray.random.continuous import cauchy as cauchy
from gpuarray.random.continuous import double_sided_maxwell as double_sided_maxwell
from gpuarray.random.continuous import exponential as exponential
from gpuarray.random.continuous import gumbel as gumbel
from gpuarray.random.continuous import laplace as laplace
from gpuarray.random.continuous import logistic as logistic
from gpuarray.random.continuous import lognormal as lognormal
from gpuarray.random.continuous import maxwell as maxwell
from gpuarray.random.continuous import pareto as pareto
from gpuarray.random.continuous import rayleigh as rayleigh
from gpuarray.random.continuous import triangular as triangular
from gpuarray.random.continuous import wald as wald
from gpuarray.random.continuous import weibull_min as weibull_min
from gpuarray.random.counts import binomial as binomial
from gpuarray.random.counts import multinomial as multinomial
from gpuarray.random.counts import poisson as poisson
from gpuarray.random.discrete import categorical as categorical
from gpuarray.random.discrete import choice as choice
from gpuarray.random.discrete import geometric as geometric
from gpuarray.random.discrete import permutation as permutation
from gpuarray.random.gammas import ball as ball
from gpuarray.random.gammas import beta as beta
from gpuarray.random.gammas import chisquare as chisquare
from gpuarray.random.gammas import dirichlet as dirichlet
from gpuarray.random.gammas import f as f
from gpuarray.random.gammas import gamma as gamma
from gpuarray.random.gammas import generalized_normal as generalized_normal
from gpuarray.random.gammas import loggamma as loggamma
from gpuarray.random.gammas import t as t
from gpuarray.random.keys import PRNGKey as PRNGKey
from gpuarray.random.keys import clone as clone
from gpuarray.random.keys import fold_in as fold_in
from gpuarray.random.keys import key as key
from gpuarray.random.keys import key_data as key_data
from gpuarray.random.keys import key_dtype as key_dtype
from gpuarray.random.keys import key_impl as key_impl
from gpuarray.random.keys import split as split
from gpuarray.random.keys import wrap_key_data as wrap_key_data
from gpuarray.random.matrices import multivariate_normal as multivariate_normal
from gpuarray.random.matrices import orthogonal as orthogonal

__getattr__ = _explain_names(__name__)
