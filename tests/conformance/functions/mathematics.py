from .table import case, distinct

case(lambda xp, a: xp.modf(a)[0], (3, 4), name="modf fraction", ints=False, domain=distinct)
case(lambda xp, a: xp.modf(a), (3, 4), name="modf", ints=False, grad=[])
case(lambda xp, a, b: xp.divmod(a, b), (3,), (3,), name="divmod", grad=[], domain=(1, 5))
case(lambda xp, a: xp.conj(a), (3,), name="conj")
case(lambda xp, a: xp.imag(a), (3,), name="imag", grad=[])
case(lambda xp, a: xp.real(a), (3,), name="real")
case(lambda xp, a: xp.nancumsum(a, 1), (3, 4), name="nancumsum")
case(lambda xp, a: xp.nancumprod(a, 0), (3, 4), name="nancumprod")
