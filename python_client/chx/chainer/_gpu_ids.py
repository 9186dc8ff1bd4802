"""GPUs by their number, as Chainer's programs name them: the daemon's devices cuda:0, cuda:1, ..."""

from chx._runtime import context


def _name(device_id):
    """ "cuda:N".

    Raises:
      RuntimeError: the daemon does not serve that device.
    """
    name = f"cuda:{int(device_id)}"
    served = [device.name for device in context.get_default_context()._open().devices]
    if name not in served:
        raise RuntimeError(
            f"GPU {device_id} of a program on chx is the daemon's device {name}, and the daemon serves "
            f"{', '.join(served)}: start it with --devices={name}, or name one of these devices "
            f"(--device {served[0]}) instead of --gpu"
        )
    return name


def adapt(chainer):
    from chainer.backends import cuda

    if cuda.available:  # CuPy is there, and means its own GPUs
        return
    dummy = cuda.DummyDevice

    def device_of(device_id):
        if not (isinstance(device_id, cuda._integer_types) and device_id >= 0):
            raise ValueError(f"[get_device] expects the number of a GPU, got {device_id!r}")
        return chainer.get_device(_name(device_id))

    def get_device_from_id(device_id):
        """The daemon's device of that number; none for None and below 0."""
        if device_id is None or device_id < 0:
            return dummy
        return device_of(device_id)

    cuda.GpuDevice.from_device_id = staticmethod(device_of)
    cuda.get_device_from_id = get_device_from_id
