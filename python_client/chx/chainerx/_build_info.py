"""Whether ChainerX's compiled part is there. Chainer asks."""

build_chainerx = True
