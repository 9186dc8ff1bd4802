"""Holds libchxd_cuda.so, which the daemon of the package chx opens for devices of "cuda"."""
