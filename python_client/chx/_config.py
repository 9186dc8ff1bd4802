"""chx.config: what this process has settled about chx."""

_FALLBACK = ("allow", "warn", "raise")


class Config:
    """Settings of this process, for all of its threads.

    Attributes:
      fallback: What happens when Chainer computes a function with NumPy because it has no route to
        the daemon: "allow" it, "warn" (the default) once for each function, or "raise".
      jit_updaters: Whether Chainer's StandardUpdater has the daemon repeat its iterations, as chx.jit
        does. False by default. What cannot be recorded runs as ever: the logger "chx" says why.
    """

    def __init__(self) -> None:
        self._fallback = "warn"
        self._jit_updaters = False

    @property
    def fallback(self) -> str:
        return self._fallback

    @fallback.setter
    def fallback(self, value: str) -> None:
        if value not in _FALLBACK:
            raise ValueError(f"[config] expects fallback to be one of {_FALLBACK}, got {value!r}")
        self._fallback = value

    @property
    def jit_updaters(self) -> bool:
        return self._jit_updaters

    @jit_updaters.setter
    def jit_updaters(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"[config] expects jit_updaters to be True or False, got {value!r}")
        self._jit_updaters = value

    def __repr__(self) -> str:
        return f"<chx.config fallback={self._fallback!r} jit_updaters={self._jit_updaters}>"


config = Config()
