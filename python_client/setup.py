"""Packs the wheel's files, which tools/wheel.sh has put beside this file."""

import re
from pathlib import Path

from setuptools import Distribution, setup


class BinaryDistribution(Distribution):
    """Its extension module is built already, by Bazel."""

    def has_ext_modules(self):
        return True


setup(
    name="chx",
    version=re.search(r'__version__ = "(.*)"', Path("chx/_version.py").read_text())[1],
    description="NumPy-like arrays with gradients, held by a chxd daemon",
    license="MIT",
    license_files=["LICENSE"],
    packages=[
        "chx",
        "chx._autograd",
        "chx._numpy",
        "chx._runtime",
        "chx.array_api",
        "chx.chainer",
        "chx.chainer._routes",
        "chx.chainerx",
        "chx.chainerx.testing",
        "chx.kernels",
        "chx.optimizers",
        "chx.random",
    ],
    package_data={"": ["*.pyi"], "chx": ["_core.so", "py.typed", "bin/chxd", "bin/libdnnl.so.2"]},
    python_requires=">=3.11,<3.12",
    install_requires=["numpy>=1.22"],
    # NumPy 2 has dropped what no alias supplies: the meaning of array(copy=False).
    extras_require={"chainer": ["chainer==7.8.1", "numpy>=1.22,<2", "setuptools<81"]},
    distclass=BinaryDistribution,
    zip_safe=False,
)
