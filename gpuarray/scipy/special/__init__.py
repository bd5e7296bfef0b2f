"""`gpuarray.scipy.special`: special functions, nearly all of them pointwise.

Floor 6. Every public name of the modules in this folder.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.scipy.special.bessel import bessel_jn as bessel_jn
from gpuarray.scipy.special.bessel import i0 as i0
from gpuarray.scipy.special.bessel import i0e as i0e
from gpuarray.scipy.special.bessel import i1 as i1
from gpuarray.scipy.special.bessel import i1e as i1e
from gpuarray.scipy.special.bessel import sph_harm_y as sph_harm_y
from gpuarray.scipy.special.entropy import boxcox as boxcox
from gpuarray.scipy.special.entropy import boxcox1p as boxcox1p
from gpuarray.scipy.special.entropy import entr as entr
from gpuarray.scipy.special.entropy import expit as expit
from gpuarray.scipy.special.entropy import kl_div as kl_div
from gpuarray.scipy.special.entropy import log_softmax as log_softmax
from gpuarray.scipy.special.entropy import logit as logit
from gpuarray.scipy.special.entropy import logsumexp as logsumexp
from gpuarray.scipy.special.entropy import rel_entr as rel_entr
from gpuarray.scipy.special.entropy import softmax as softmax
from gpuarray.scipy.special.entropy import xlog1py as xlog1py
from gpuarray.scipy.special.entropy import xlogy as xlogy
from gpuarray.scipy.special.gammas import bernoulli as bernoulli
from gpuarray.scipy.special.gammas import beta as beta
from gpuarray.scipy.special.gammas import betainc as betainc
from gpuarray.scipy.special.gammas import betaln as betaln
from gpuarray.scipy.special.gammas import comb as comb
from gpuarray.scipy.special.gammas import digamma as digamma
from gpuarray.scipy.special.gammas import factorial as factorial
from gpuarray.scipy.special.gammas import gamma as gamma
from gpuarray.scipy.special.gammas import gammainc as gammainc
from gpuarray.scipy.special.gammas import gammaincc as gammaincc
from gpuarray.scipy.special.gammas import gammaln as gammaln
from gpuarray.scipy.special.gammas import gammasgn as gammasgn
from gpuarray.scipy.special.gammas import loggamma as loggamma
from gpuarray.scipy.special.gammas import multigammaln as multigammaln
from gpuarray.scipy.special.gammas import poch as poch
from gpuarray.scipy.special.gammas import polygamma as polygamma
from gpuarray.scipy.special.gammas import zeta as zeta
from gpuarray.scipy.special.integrals import exp1 as exp1
from gpuarray.scipy.special.integrals import expi as expi
from gpuarray.scipy.special.integrals import expn as expn
from gpuarray.scipy.special.integrals import fresnel as fresnel
from gpuarray.scipy.special.integrals import hyp1f1 as hyp1f1
from gpuarray.scipy.special.integrals import hyp2f1 as hyp2f1
from gpuarray.scipy.special.integrals import sici as sici
from gpuarray.scipy.special.integrals import spence as spence
from gpuarray.scipy.special.normal import dawsn as dawsn
from gpuarray.scipy.special.normal import erf as erf
from gpuarray.scipy.special.normal import erfc as erfc
from gpuarray.scipy.special.normal import erfcx as erfcx
from gpuarray.scipy.special.normal import erfinv as erfinv
from gpuarray.scipy.special.normal import log_ndtr as log_ndtr
from gpuarray.scipy.special.normal import ndtr as ndtr
from gpuarray.scipy.special.normal import ndtri as ndtri
from gpuarray.scipy.special.normal import owens_t as owens_t
from gpuarray.scipy.special.normal import wofz as wofz

__getattr__ = _explain_names(__name__)
