"""`gpuarray.scipy.stats`: distributions, each a module of functions, and statistics of samples.

Floor 6. Every public name of the modules in this folder.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.scipy.stats import bernoulli as bernoulli
from gpuarray.scipy.stats import beta as beta
from gpuarray.scipy.stats import betabinom as betabinom
from gpuarray.scipy.stats import binom as binom
from gpuarray.scipy.stats import cauchy as cauchy
from gpuarray.scipy.stats import chi2 as chi2
from gpuarray.scipy.stats import dirichlet as dirichlet
from gpuarray.scipy.stats import expon as expon
from gpuarray.scipy.stats import gamma as gamma
from gpuarray.scipy.stats import gennorm as gennorm
from gpuarray.scipy.stats import geom as geom
from gpuarray.scipy.stats import gumbel_l as gumbel_l
from gpuarray.scipy.stats import gumbel_r as gumbel_r
from gpuarray.scipy.stats import laplace as laplace
from gpuarray.scipy.stats import logistic as logistic
from gpuarray.scipy.stats import multinomial as multinomial
from gpuarray.scipy.stats import multivariate_normal as multivariate_normal
from gpuarray.scipy.stats import nbinom as nbinom
from gpuarray.scipy.stats import norm as norm
from gpuarray.scipy.stats import pareto as pareto
from gpuarray.scipy.stats import poisson as poisson
from gpuarray.scipy.stats import t as t
from gpuarray.scipy.stats import truncnorm as truncnorm
from gpuarray.scipy.stats import uniform as uniform
from gpuarray.scipy.stats import vonmises as vonmises
from gpuarray.scipy.stats import wrapcauchy as wrapcauchy
from gpuarray.scipy.stats.kde import gaussian_kde as gaussian_kde
from gpuarray.scipy.stats.ranks import mode as mode
from gpuarray.scipy.stats.ranks import rankdata as rankdata
from gpuarray.scipy.stats.ranks import sem as sem

__getattr__ = _explain_names(__name__)
