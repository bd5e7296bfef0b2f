"""The library's own programs under settings that forbid what a user may not have meant.

In: calls of functions that are made of several operations. Out: no error under
numpy_rank_promotion="raise", numpy_dtype_promotion="strict", debug_nans and debug_infs where the
arguments give no reason for one; and one where they do.
"""

import functools
import operator

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import image, lax, nn, ops, random, scipy
from gpuarray.experimental import checkify, ode
from gpuarray.scipy.spatial import transform

x = gnp.arange(1.0, 7.0).reshape(2, 3)
v = gnp.arange(1.0, 4.0)
s = gnp.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
h, hm = v.astype(gnp.float16), x.astype(gnp.float16)
whole = gnp.arange(3)
sig = gnp.sin(gnp.arange(64.0))
key = random.key(0)

SPACE = {
    "np": np,
    "ga": ga,
    "gnp": gnp,
    "scipy": scipy,
    "transform": transform,
    "image": image,
    "lax": lax,
    "nn": nn,
    "ops": ops,
    "random": random,
    "checkify": checkify,
    "ode": ode,
    "x": x,
    "v": v,
    "s": s,
    "h": h,
    "hm": hm,
    "sig": sig,
    "key": key,
}
#: Each is run as it stands: text, so that a failure names it.
CALLS = """
image.resize(x,(4,6),"linear")
image.resize(x,(4,6),"cubic")
image.scale_and_translate(x,(4,6),(0,1),gnp.ones(2),gnp.zeros(2),"linear")
scipy.linalg.sqrtm(s)
scipy.linalg.solve_sylvester(s,s,s)
scipy.linalg.expm(s)
scipy.linalg.funm(s,lambda a:a*2)
scipy.linalg.polar(s)
scipy.linalg.rsf2csf(s,s)
scipy.linalg.eigh_tridiagonal(v,gnp.ones(2),eigvals_only=True)
scipy.linalg.toeplitz(v)
scipy.linalg.block_diag(s,x)
scipy.linalg.cho_solve(scipy.linalg.cho_factor(s),v)
scipy.linalg.lu_solve(scipy.linalg.lu_factor(s),v)
scipy.linalg.solve_triangular(s,v)
scipy.linalg.hessenberg(s)
scipy.linalg.pascal(3)
scipy.linalg.hilbert(3)
scipy.fft.dct(x)
scipy.fft.dctn(x)
scipy.fft.idct(x)
scipy.fft.idctn(x)
scipy.signal.stft(sig,nperseg=16)
scipy.signal.csd(sig,sig,nperseg=16)
scipy.signal.welch(sig,nperseg=16)
scipy.signal.istft(scipy.signal.stft(sig,nperseg=16)[2],nperseg=16)
scipy.signal.detrend(x)
scipy.signal.convolve2d(x,x)
scipy.signal.fftconvolve(v,v)
scipy.signal.correlate(v,v)
transform.Rotation.from_euler("xyz",x).apply(x).sum()+transform.Rotation.from_rotvec(x).magnitude().sum()
transform.Rotation.from_euler("x",1.).apply(x)
(transform.Rotation.from_euler("xyz",x)*transform.Rotation.from_euler("xyz",v)).as_quat()
transform.Slerp.init(gnp.array([0.,1.]),transform.Rotation.from_euler("xyz",x))(gnp.array([.3,.5])).as_quat()
transform.Rotation.from_matrix(gnp.eye(3)).as_euler("xyz")
gnp.polyfit(gnp.arange(5.),gnp.arange(5.)**2,2)
gnp.polyfit(gnp.arange(5.),gnp.ones((5,2)),2,full=True)
gnp.polyfit(gnp.arange(5.),gnp.arange(5.)**2,1,w=gnp.ones(5),cov=True)
gnp.vander(v)
gnp.linspace(v,v+1,4)
gnp.logspace(v,v+1,4)
gnp.geomspace(v,v+1,4)
gnp.polyadd(v,gnp.ones(2))
gnp.polysub(v,gnp.ones(2))
gnp.polymul(v,v)
gnp.polydiv(v,gnp.ones(2))
gnp.polyval(v,2.)
gnp.polyval(v,x)
gnp.polyder(v)
gnp.polyint(v)
gnp.roots(v)
gnp.poly(v)
gnp.heaviside(x,0.5)
gnp.array_equiv(x,v)
scipy.stats.multivariate_normal.logpdf(v,gnp.zeros(3),s)
scipy.stats.multivariate_normal.logpdf(x,gnp.zeros((1,3)),s)
gnp.cov(x)
gnp.cov(x,fweights=gnp.array([1,2,3]),aweights=v)
gnp.corrcoef(x)
gnp.where(gnp.ones((0,),bool),gnp.zeros((0,)),1.)
gnp.where(gnp.array(True),x,0.)
gnp.add.outer(v,x)
checkify.checkify(lambda a: gnp.log(a)[1],errors=checkify.all_checks)(x)[1]
checkify.checkify(lambda a,i: a[i],errors=checkify.all_checks)(x,gnp.array([0,1]))[1]
gnp.var(x,axis=0)
gnp.std(x,axis=1)
gnp.median(x,axis=0)
gnp.quantile(x,gnp.array([.2,.5]),axis=0)
gnp.nanquantile(x,gnp.array([.2,.5]),axis=0)
gnp.percentile(x,50.,axis=1)
gnp.nanvar(x,axis=0)
gnp.nanmean(x,axis=0)
gnp.average(x,axis=0,weights=gnp.array([1.,2.]))
nn.standardize(x)
nn.softmax(x)
nn.logsumexp(x,axis=0)
nn.log_softmax(x,axis=0)
nn.one_hot(gnp.array([0,1]),3)
nn.gelu(x)
nn.dot_product_attention(gnp.ones((1,4,2,3)),gnp.ones((1,4,2,3)),gnp.ones((1,4,2,3)))
gnp.interp(x,v,v)
gnp.histogram(v,bins=3)
gnp.histogram2d(v,v,bins=3)
gnp.digitize(v,v)
gnp.searchsorted(v,x)
gnp.gradient(x)
gnp.trapezoid(x,x)
gnp.cross(x,x)
gnp.diff(x)
gnp.ediff1d(v)
gnp.unwrap(x)
gnp.convolve(v,v)
gnp.kron(x,v.reshape(1,3))
gnp.meshgrid(v,v)
gnp.tril(x)
gnp.diag(v)
gnp.fill_diagonal(s,0.,inplace=False)
gnp.unique(v,size=3)
gnp.isin(x,v)
gnp.union1d(v,v)
gnp.setdiff1d(v,v[:1])
gnp.take(x,gnp.array([0,1]),axis=1)
gnp.put(v,gnp.array([0]),9.,inplace=False)
gnp.insert(v,1,9.)
gnp.delete(v,1)
gnp.apply_along_axis(gnp.sum,0,x)
gnp.vectorize(lambda a,b: a@b,signature="(n),(n)->()")(x,x)
gnp.heaviside(x,v)
gnp.gcd(gnp.arange(6).reshape(2,3),gnp.arange(3))
random.uniform(key,(2,3),minval=v)
nn.standardize(x,mean=v[None],variance=v[None])
gnp.linalg.solve(gnp.stack([s,s]),gnp.stack([s,s]))
gnp.select([x>1,x>2],[x,x])
gnp.piecewise(v,[v>1,v>2],[1.,2.,3.])
gnp.nan_to_num(x)
gnp.pad(x,1,mode="linear_ramp")
gnp.pad(x,1,mode="mean")
gnp.clip(x,0.,1.)
gnp.round(x,1)
gnp.linalg.svd(x)
gnp.linalg.pinv(x)
gnp.linalg.lstsq(x,gnp.ones(2))
gnp.linalg.cond(s)
gnp.linalg.norm(x,axis=0)
gnp.linalg.matrix_rank(s)
gnp.linalg.slogdet(s)
gnp.linalg.matrix_power(s,3)
gnp.linalg.eigh(s)
gnp.linalg.solve(s,v)
gnp.linalg.tensorsolve(s,v)
gnp.linalg.multi_dot([s,s,v])
gnp.fft.fft2(x)
gnp.fft.fftfreq(5)
gnp.i0(x)
gnp.bartlett(5)
gnp.hanning(5)
gnp.kaiser(5,2.)
random.multivariate_normal(key,gnp.zeros(3),s)
random.dirichlet(key,v)
random.categorical(key,x)
random.choice(key,v,(3,),p=v/6)
random.choice(key,v,(2,),replace=False,p=v/6)
random.gamma(key,v)
random.beta(key,v,v)
random.orthogonal(key,3)
random.ball(key,3)
random.binomial(key,10.,0.5,(3,))
random.poisson(key,3.,(3,))
random.multinomial(key,10,v/6)
random.truncated_normal(key,0.,1.,(3,))
random.permutation(key,x,axis=1,independent=True)
random.wald(key,1.,(3,))
random.t(key,3.,(3,))
random.rademacher(key,(3,))
scipy.stats.gaussian_kde(x.reshape(1,6)).evaluate(v)
scipy.stats.gaussian_kde(gnp.sin(gnp.arange(20.)).reshape(2,10)).logpdf(x.reshape(2,3))
scipy.stats.rankdata(v)
scipy.stats.mode(x)
scipy.stats.sem(x)
scipy.stats.dirichlet.logpdf(gnp.ones(3)/3,v)
scipy.stats.multinomial.logpmf(gnp.array([1,2]),3,gnp.array([.5,.5]))
scipy.special.sph_harm_y(gnp.array([1]),gnp.array([1]),gnp.array([.5]),gnp.array([.5]))
scipy.special.multigammaln(5.*v,2)
scipy.special.betainc(1.,2.,gnp.array([.2]))
scipy.special.bessel_jn(v,v=2)
scipy.special.zeta(v+1,2.)
scipy.special.polygamma(1,v)
scipy.special.rel_entr(x,x)
scipy.special.gammainc(1.,v)
scipy.special.expn(2,v)
scipy.special.fresnel(v)
scipy.special.hyp1f1(1.,2.,v)
scipy.special.hyp2f1(1.,2.,3.,v/9)
scipy.special.spence(v)
scipy.special.poch(v,2.)
scipy.special.bernoulli(3)
ode.odeint(lambda y,t: -y, v, gnp.linspace(0.,1.,3))
scipy.ndimage.map_coordinates(x,[v-1,v-1],1)
scipy.optimize.minimize(lambda p: ((p-v)**2).sum(),gnp.zeros(3),method="BFGS").x
scipy.interpolate.RegularGridInterpolator((gnp.arange(2.),gnp.arange(3.)),x)(gnp.array([[.5,.5]]))
scipy.sparse.linalg.cg(lambda a: s@a,v)[0]
scipy.sparse.linalg.gmres(lambda a: s@a,v)[0]
scipy.sparse.linalg.bicgstab(lambda a: s@a,v)[0]
scipy.cluster.vq.vq(x,x)
scipy.integrate.trapezoid(x)
ops.segment_sum(x,gnp.array([0,1]),2)
ga.hessian(lambda a: (a**3).sum())(v)
ga.jacfwd(gnp.sin)(v)
(x-x.mean(0,keepdims=True))
lax.cumlogsumexp(x)
lax.associative_scan(gnp.add,x)
lax.conv(gnp.ones((1,1,4,4)),gnp.ones((1,1,2,2)),(1,1),"SAME")
lax.top_k(x,2)
nn.initializers.glorot_normal()(key,(3,4))
nn.initializers.orthogonal()(key,(3,4))
nn.initializers.delta_orthogonal()(key,(3,4,4))
gnp.var(hm)
gnp.std(hm,axis=0)
gnp.median(h)
gnp.quantile(h,0.5)
gnp.linspace(0,1,5,dtype=gnp.float16)
nn.logsumexp(h)
nn.logmeanexp(x)
scipy.special.gamma(v)
scipy.special.gamma(3.)
gnp.corrcoef(hm)
gnp.cov(hm)
nn.softmax(hm)
gnp.mean(h)
nn.standardize(hm)
nn.gelu(h)
gnp.linalg.norm(h)
gnp.average(h)
gnp.nanmean(h)
gnp.nanvar(h)
gnp.geomspace(1,2,3,dtype=gnp.float16)
gnp.logspace(0,1,3,dtype=gnp.float16)
gnp.interp(h,h,h)
gnp.trapezoid(h)
gnp.gradient(h)
gnp.unwrap(h)
gnp.histogram(h,3)
gnp.percentile(h,50.)
nn.silu(h)
gnp.round(h,1)
gnp.cross(h,h)
gnp.nan_to_num(h)
gnp.sinc(h)
gnp.i0(h)
gnp.logaddexp(h,h)
gnp.mean(gnp.arange(3))
gnp.var(gnp.arange(3))
gnp.median(gnp.arange(3))
gnp.ldexp(v,gnp.arange(3))
gnp.frexp(v)
random.normal(key,(3,),gnp.float16)
random.gumbel(key,(3,),gnp.float16)
scipy.special.xlogy(v,v)
scipy.stats.logistic.logpdf(h)
nn.dot_product_attention(*[gnp.ones((1,4,2,3),gnp.float16)]*3)
nn.logsumexp(gnp.ones(3))
nn.logsumexp(gnp.ones(3),b=v)
nn.softmax(v)
nn.softmax(v,where=v>1)
nn.log_softmax(v)
gnp.max(v)
gnp.max(v,initial=0.,where=v>1)
v.min()
gnp.nanmax(v)
gnp.nanmin(v)
gnp.argmax(v)
gnp.nanargmax(v)
gnp.logaddexp(1.,2.)
gnp.sort(v)
gnp.median(v)
gnp.quantile(v,.5)
gnp.nanmedian(v)
gnp.linalg.norm(v)
gnp.linalg.norm(v,np.inf)
lax.cummax(v)
lax.reduce_window(x,-np.inf,lax.max,(2,2),(1,1),"VALID")
random.categorical(key,v)
random.gumbel(key,(100,))
random.normal(key,(100,))
nn.dot_product_attention(*[gnp.ones((1,4,2,3))]*3,is_causal=True)
lax.cumlogsumexp(v)
scipy.special.xlogy(0.,0.)
scipy.stats.beta.logpdf(.5,2.,2.)
scipy.special.gammaln(v)
ops.segment_max(v,gnp.array([0,0,1]),2)
ga.grad(nn.logsumexp)(v)
gnp.interp(v,v,v)
random.truncated_normal(key,-1.,1.,(10,))
gnp.isclose(v,v)
gnp.nan_to_num(v)
scipy.special.gammainc(2.,v)
scipy.special.gammaincc(2.,v)
scipy.special.betainc(2.,2.,v/9)
scipy.special.ndtri(gnp.array([.2]))
scipy.special.log_ndtr(v)
scipy.special.digamma(v)
scipy.special.zeta(v+1,1.)
""".strip().splitlines()

SETTINGS = {
    "numpy_rank_promotion": "raise",
    "numpy_dtype_promotion": "strict",
    "debug_nans": True,
    "debug_infs": True,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_library_keeps_to_the_setting(name):
    codes = [(text, compile(text, "<call>", "eval")) for text in CALLS]
    ga.config.update(name, SETTINGS[name])
    failed = []
    for text, code in codes:
        try:
            ga.block_until_ready(eval(code, SPACE))
        except Exception as error:
            failed.append(f"{text}: {error}")
    assert not failed, "\n".join(failed)


def smallest(f):
    return scipy.optimize.minimize(f, gnp.zeros(3), method="BFGS").x


#: Functions of two operands that are made of several operations.
OF_SEVERAL = [
    operator.mod, operator.floordiv, operator.pow, divmod, gnp.remainder, gnp.fmod, gnp.power,
    gnp.float_power, gnp.floor_divide, gnp.divmod, gnp.copysign, gnp.logaddexp, gnp.logaddexp2,
    gnp.hypot, gnp.clip,
]  # fmt: skip

#: Operators of NumPy's arrays and scalars that have one of ours on their right.
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.iadd, divmod, operator.lt, operator.le, operator.gt, operator.ge,
    operator.eq, operator.ne,
]  # fmt: skip
WHOLE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]

#: Calls in which a function of several operations broadcasts operands of different ranks.
OF_TWO_RANKS = """
gnp.vecdot(x,v)
gnp.linalg.vecdot(x,v)
gnp.matvec(gnp.stack([x,x]),v)
gnp.vecmat(v[:2],gnp.stack([x,x]))
gnp.vectorize(lambda a,b: a@b,signature="(n),(n)->()")(x,v)
gnp.linalg.solve(gnp.stack([s,s]),v)
gnp.linalg.solve(gnp.stack([s,s]),s)
scipy.linalg.solve(gnp.stack([s,s]),s)
gnp.linspace(v,x,4)
gnp.logspace(v,stop=x,num=4)
gnp.geomspace(start=v,stop=x)
gnp.trapezoid(x,v)
scipy.integrate.trapezoid(x,v)
gnp.cov(x,v)
gnp.corrcoef(v,x)
gnp.piecewise(x,[v>1],[1.,2.])
gnp.ravel_multi_index((gnp.arange(6).reshape(2,3),gnp.arange(3)),(9,9),mode="clip")
nn.logsumexp(x,b=v,axis=0)
scipy.special.logsumexp(x,b=v)
nn.standardize(x,mean=v)
nn.standardize(x,variance=v)
nn.leaky_relu(x,v)
nn.elu(x,v)
nn.celu(x,v)
nn.squareplus(x,v)
random.bernoulli(key,v/9,(2,3))
random.truncated_normal(key,v,9.,(2,3))
random.t(key,v,(2,3))
random.pareto(key,v,(2,3))
random.lognormal(key,v,(2,3))
random.weibull_min(key,v,x)
scipy.special.expn(gnp.arange(3),x)
scipy.special.hyp1f1(x,v,.5)
scipy.special.hyp2f1(x,v,v,.5)
scipy.stats.multivariate_normal.logpdf(x,v,s)
scipy.ndimage.map_coordinates(x,[x,v],1)
""".strip().splitlines()


def test_operands_of_two_ranks_are_refused():
    """As JAX 0.10.2 refuses them, whose functions are made of `+` and `vectorize`."""
    taken = []
    for text in OF_TWO_RANKS:
        call = compile(text, "<call>", "eval")
        ga.block_until_ready(eval(call, SPACE))  # they are right otherwise
        with ga.numpy_rank_promotion("raise"):
            try:
                eval(call, SPACE)
            except ValueError as error:
                assert "rank_promotion" in str(error), text
            else:
                taken.append(text)
    assert not taken


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("numpy_rank_promotion", lambda: x + v),
        ("numpy_rank_promotion", lambda: gnp.multiply(x, v)),
        ("numpy_rank_promotion", lambda: ga.jit(lambda a, b: a * b)(x, v)),
        ("numpy_rank_promotion", lambda: smallest(lambda p: ((p - x) ** 2).sum())),
        ("numpy_rank_promotion", lambda: gnp.maximum(x, v)),
        *[("numpy_rank_promotion", functools.partial(f, x, v)) for f in OF_SEVERAL],
        *[("numpy_dtype_promotion", functools.partial(f, h, v)) for f in OF_SEVERAL],
        *[("numpy_rank_promotion", lambda f=f: f(np.ones((2, 3)), v)) for f in OPERATORS],
        *[("numpy_rank_promotion", lambda f=f: f(np.eye(3, dtype=int), whole)) for f in WHOLE],
        *[("numpy_dtype_promotion", lambda f=f: f(np.float32(2), h)) for f in OPERATORS],
        *[("numpy_dtype_promotion", lambda f=f: f(np.ones(3, np.float32), h)) for f in OPERATORS],
        ("numpy_rank_promotion", lambda: ga.jit(lambda a, b: a % b)(x, v)),
        ("numpy_dtype_promotion", lambda: v.clip(0.0, h)),
        ("numpy_dtype_promotion", lambda: h + v),
        ("numpy_dtype_promotion", lambda: gnp.arctan2(h, v)),
        ("numpy_dtype_promotion", lambda: ga.vmap(lambda a, b: a * b)(h, v)),
        ("numpy_dtype_promotion", lambda: gnp.where(v > 1, h, v)),
        ("numpy_dtype_promotion", lambda: smallest(lambda p: ((p - h) ** 2).sum())),
        ("debug_nans", lambda: gnp.log(-v)),
        ("debug_nans", lambda: gnp.std(v * gnp.nan)),
        ("debug_nans", lambda: scipy.stats.norm.logpdf(v, 0.0, -1.0) * 0 + gnp.sqrt(-v)),
        ("debug_nans", lambda: ga.jit(lambda a: a / a)(v * 0)),
        ("debug_nans", lambda: gnp.linalg.norm(gnp.array([np.inf]) - np.inf)),
        ("debug_infs", lambda: gnp.exp(v * 100)),
        ("debug_infs", lambda: gnp.sum(gnp.full(3, 3e38))),
        ("debug_infs", lambda: v / 0.0),
    ],
)
def test_a_users_own_expression_is_refused(name, call):
    ga.config.update(name, SETTINGS[name])
    with pytest.raises((ValueError, FloatingPointError)):
        ga.block_until_ready(call())


@pytest.mark.parametrize("function", [np.multiply, np.remainder, np.hypot, np.less, np.clip])
def test_numpys_functions_promote_as_numpy_does(function):
    """The settings are about our functions and operators, as in JAX."""
    ga.config.update("numpy_rank_promotion", "raise")
    ga.config.update("numpy_dtype_promotion", "strict")
    operands = (hm, v) if function is not np.clip else (hm, v, v)
    expected = function(*map(np.asarray, operands))
    for given in (operands, (np.asarray(hm), *operands[1:])):
        np.testing.assert_allclose(function(*given), expected, rtol=1e-6)


@pytest.mark.parametrize("order", [1, -1])
def test_what_the_library_was_let_do_is_not_let_a_user_do(order):
    """Plans are remembered for each pair of operands, whoever asked first."""
    ga.config.update("numpy_dtype_promotion", "strict")
    ga.config.update("numpy_rank_promotion", "raise")
    powers, grid = gnp.arange(3), gnp.arange(4.0)[:, None]

    def library():
        np.testing.assert_allclose(gnp.vander(gnp.arange(4.0), 3), np.vander(np.arange(4.0), 3))

    def user():
        with pytest.raises(ValueError, match="strict|raise"):
            grid**powers

    for step in (library, user, library)[::order]:
        step()


@pytest.mark.parametrize("over", ["shard_map", "pmap"])
def test_nans_of_programs_over_devices_are_found(over):
    mesh = ga.make_mesh((1,), ("i",), axis_types=(ga.sharding.AxisType.Auto,))
    spec = ga.P("i")

    def mapped(f):
        if over == "pmap":
            return ga.pmap(f)
        return ga.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)

    zeros = gnp.zeros((1, 2))
    f = mapped(lambda y: y / y)
    with ga.debug_nans(True):
        for call in (lambda: f(zeros), lambda: ga.grad(lambda z: f(z).sum())(zeros)):
            with pytest.raises(FloatingPointError, match=r"invalid value \(nan\)"):
                call()
        assert float(f(zeros + 1).sum()) == 2.0


@pytest.mark.parametrize("name", ["enable_x64", "numpy_rank_promotion", "debug_nans"])
def test_global_values_of_settings(name):
    context, setting = getattr(ga, name), f"jax_{name}"
    other = {"numpy_rank_promotion": "warn"}.get(name, True)
    before = context.get_global()
    assert context.name == setting and context.value == before
    with context(other):
        assert (context.value, context.get_global()) == (other, before)
    try:
        context.set_global(other)
        assert context.value == getattr(ga.config, setting) == context.get_global() == other
    finally:
        context.set_global(before)
