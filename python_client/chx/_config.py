"""chx.config: what this process has settled about chx."""

_FALLBACK = ("allow", "warn", "raise")


class Config:
    """Settings of this process, for all of its threads.

    Attributes:
      fallback: What happens when Chainer computes a function with NumPy because it has no route to
        the daemon: "allow" it, "warn" (the default) once for each function, or "raise".
    """

    def __init__(self) -> None:
        self._fallback = "warn"

    @property
    def fallback(self) -> str:
        return self._fallback

    @fallback.setter
    def fallback(self, value: str) -> None:
        if value not in _FALLBACK:
            raise ValueError(f"[config] expects fallback to be one of {_FALLBACK}, got {value!r}")
        self._fallback = value

    def __repr__(self) -> str:
        return f"<chx.config fallback={self._fallback!r}>"


config = Config()
