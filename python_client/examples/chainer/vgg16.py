"""VGG16 (Simonyan, Zisserman 2014) of any width, on digits in 32 by 32 pixels.

python -m chx run vgg16.py --device native:0 --width 16
"""

import chainer
import chainer.functions as F
import chainer.links as L
import image_loop
import options


class Block(chainer.ChainList):
    """Convolutions of 3 by 3 that keep the image's size, and a pooling that halves it."""

    def __init__(self, channels, layers):
        super().__init__(*[L.Convolution2D(None, channels, 3, pad=1) for _ in range(layers)])

    def forward(self, x):
        for convolution in self:
            x = F.relu(convolution(x))
        return F.max_pooling_2d(x, 2)


class VGG16(chainer.ChainList):
    """Logits while training, probabilities otherwise.

    Width is the channels of the first block: 64 in the paper.
    """

    def __init__(self, width, units, dropout, classes=10):
        layers = (2, 2, 3, 3, 3)
        blocks = [Block(width * min(2**i, 8), n) for i, n in enumerate(layers)]
        super().__init__(
            *blocks, L.Linear(None, units), L.Linear(units, units), L.Linear(units, classes)
        )
        self.dropout = dropout

    def forward(self, x):
        for block in self[:5]:
            x = block(x)
        for full in self[5:7]:
            x = F.dropout(F.relu(full(x)), self.dropout)
        x = self[7](x)
        return x if chainer.config.train else F.softmax(x)


def main(arguments=None):
    parser = options.parser(
        __doc__, steps=20, batch_size=16, images=64, width=8, units=64, dropout=0.5, lr=0.01
    )
    args = parser.parse_args(arguments)
    device = options.begin(args)
    model = VGG16(args.width, args.units, args.dropout).to_device(device)
    data = image_loop.digits(args.images, 32, 3)
    optimizer = chainer.optimizers.MomentumSGD(args.lr)
    losses = image_loop.train(model, optimizer, data, device, args.steps, args.batch_size)
    print(f"loss {float(losses[0]):.3f}, then {float(losses[-1]):.3f}")
    return model, losses, image_loop.accuracy(model, data, device)


if __name__ == "__main__":
    main()
