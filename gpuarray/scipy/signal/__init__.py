"""`gpuarray.scipy.signal`: convolutions, trends, spectra.

Floor 6. Every public name of the modules in this folder.
"""

from gpuarray.names import explain_names as _explain_names
from gpuarray.scipy.signal.convolutions import convolve as convolve
from gpuarray.scipy.signal.convolutions import convolve2d as convolve2d
from gpuarray.scipy.signal.convolutions import correlate as correlate
from gpuarray.scipy.signal.convolutions import correlate2d as correlate2d
from gpuarray.scipy.signal.convolutions import fftconvolve as fftconvolve
from gpuarray.scipy.signal.spectra import csd as csd
from gpuarray.scipy.signal.spectra import istft as istft
from gpuarray.scipy.signal.spectra import stft as stft
from gpuarray.scipy.signal.spectra import welch as welch
from gpuarray.scipy.signal.trends import detrend as detrend

__getattr__ = _explain_names(__name__)
