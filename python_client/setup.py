"""Packs the wheel's files, which tools/pack_wheel.sh has put beside this file."""

import os
import re
from pathlib import Path

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel

VERSION = re.search(r'__version__ = "(.*)"', Path("chx/_version.py").read_text())[1]
# The Python that the extension module is for: 3.11.
PYTHON = os.environ["CHX_WHEEL_PYTHON"]


class BinaryDistribution(Distribution):
    """Its extension module is built already, by Bazel."""

    def has_ext_modules(self):
        return True


class TaggedWheel(bdist_wheel):
    """Whatever Python packs it."""

    def get_tag(self):
        tag = "cp" + PYTHON.replace(".", "")
        return tag, tag, super().get_tag()[2]


setup(
    name="chx",
    version=VERSION,
    description="NumPy-like arrays with gradients, held by a chxd daemon",
    long_description=Path("README.md").read_text(),
    long_description_content_type="text/markdown",
    license="MIT",
    license_files=["LICENSE"],
    packages=[
        "chx",
        "chx._autograd",
        "chx._functions",
        "chx._numpy",
        "chx._runtime",
        "chx.array_api",
        "chx.chainer",
        "chx.chainer._routes",
        "chx.chainermn",
        "chx.chainerx",
        "chx.chainerx.testing",
        "chx.kernels",
        "chx.onnx",
        "chx.onnx._export",
        "chx.onnx._import",
        "chx.optimizers",
        "chx.random",
    ],
    package_data={
        "": ["*.pyi"],
        "chx": ["_core.so", "py.typed", "bin/chxd", "bin/libdnnl.so.2", "bin/libchxd_gloo.so"],
    },
    python_requires=f"=={PYTHON}.*",
    install_requires=["numpy>=1.22"],
    # NumPy 2 has dropped what no alias supplies: the meaning of array(copy=False).
    extras_require={
        "chainer": ["chainer==7.8.1", "numpy>=1.22,<2", "setuptools<81"],
        # A plug-in works with the daemon that it was built with only.
        "cuda": [f"chx-cuda=={VERSION}"],
        # Arrays of bfloat16 in Python.
        "bfloat16": ["ml_dtypes>=0.3"],
        # chx.onnx.
        "onnx": ["onnx>=1.17"],
        # chx.admin.export_trace().
        "opentelemetry": [
            "opentelemetry-sdk>=1.27",
            "opentelemetry-exporter-otlp-proto-http>=1.27",
        ],
        # What chx.runs shows.
        "runs": ["matplotlib>=3.6", "tqdm>=4.60"],
        # chx.safetensors.
        "safetensors": ["safetensors>=0.7"],
    },
    distclass=BinaryDistribution,
    cmdclass={"bdist_wheel": TaggedWheel},
    zip_safe=False,
)
