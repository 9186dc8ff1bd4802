"""Packs the plug-in for GPUs, which tools/wheel.sh has put beside this file."""

import re
from pathlib import Path

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel


class BinaryDistribution(Distribution):
    """The plug-in is built already, by Bazel."""

    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    """The daemon opens the plug-in, not Python."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


version = re.search(r'__version__ = "(.*)"', Path("_version.py").read_text())[1]
setup(
    name="chx-cuda",
    version=version,
    description="The backend of chx for NVIDIA's GPUs",
    license="MIT",
    license_files=["LICENSE"],
    packages=["chx_cuda"],
    package_data={"chx_cuda": ["libchxd_cuda.so"]},
    python_requires=">=3.9",
    # A plug-in works with the daemon that it was built with only.
    install_requires=[f"chx=={version}"],
    distclass=BinaryDistribution,
    cmdclass={"bdist_wheel": AnyPython},
    zip_safe=False,
)
