"""Names of NumPy that ChainerX does not have and its users ask for, by kind."""

BEYOND = {
    "functions": """
        matmul tensordot einsum outer inner kron prod cumprod std average median percentile quantile
        sort argsort searchsorted unique pad tile roll rot90 column_stack atleast_1d block append
        insert delete around round rint trunc modf arctanh hypot logaddexp deg2rad rad2deg fmax fmin
        nan_to_num nanmean nanmax nanmin nanstd nanvar isclose allclose array_equal diagonal trace
        tril_indices triu_indices bincount histogram digitize cov corrcoef diff gradient interp
        convolve correlate argwhere flatnonzero take_along_axis put_along_axis select choose
        unravel_index ravel_multi_index float_power gcd lcm invert
    """,
    "indexing and protocols": """
        put putmask place compress extract ndarray.__invert__ ndarray.__pos__ ndarray.__divmod__
        ndarray.__index__ ndarray.__contains__ ndarray.__iter__ ndarray.__ipow__ ndarray.__matmul__
        ndarray.__array__ ndarray.__array_function__ ndarray.__dlpack__
    """,
    "methods": """
        argsort sort partition argpartition cumsum cumprod prod std trace diagonal nonzero ptp round
        searchsorted choose compress put resize real imag conj conjugate flags flat base data tobytes
        tofile tostring dump dumps byteswap newbyteorder getfield setfield setflags itemset ctypes
    """,
    "linalg": """
        linalg.cond linalg.det linalg.eig linalg.eigvals linalg.lstsq linalg.matrix_power
        linalg.matrix_rank linalg.multi_dot linalg.norm linalg.slogdet linalg.tensorinv
        linalg.tensorsolve linalg.LinAlgError
    """,
    "random": """
        random.seed random.rand random.randn random.randint random.choice random.permutation
        random.shuffle random.binomial random.multinomial random.multivariate_normal random.gamma
        random.beta random.dirichlet random.poisson random.exponential random.laplace random.gumbel
        random.RandomState random.Generator random.default_rng
    """,
    "areas": "fft ma polynomial complex64 complex128 uint16 uint32 uint64 save savez load",
}
