"""LeNet-5 (LeCun et al. 1998), written in two ways, learns a few digits by heart.

python -m chx run lenet5.py --device native:0 --form list
"""

import chainer
import chainer.functions as F
import chainer.links as L
import image_loop
import options


class LeNet5(chainer.Chain):
    """Logits while training, probabilities otherwise."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(1, 6, 5)
            self.conv2 = L.Convolution2D(6, 16, 5)
            self.conv3 = L.Convolution2D(16, 120, 4)
            self.full4 = L.Linear(120, 84)
            self.full5 = L.Linear(84, 10)

    def forward(self, x):
        x = F.max_pooling_2d(F.sigmoid(self.conv1(x)), 2)
        x = F.max_pooling_2d(F.sigmoid(self.conv2(x)), 2)
        x = F.sigmoid(self.conv3(x))
        x = self.full5(F.sigmoid(self.full4(x)))
        return x if chainer.config.train else F.softmax(x)


class Stage(chainer.Chain):
    """A layer with weights and what comes after it."""

    def __init__(self, layer, *after):
        super().__init__()
        with self.init_scope():
            self.layer = layer
        self.after = after

    def forward(self, x):
        x = self.layer(x)
        for function in self.after:
            x = function(x)
        return x


def pool(x):
    return F.max_pooling_2d(x, 2)


class LeNet5List(chainer.ChainList):
    """The same as a list of stages."""

    def __init__(self):
        super().__init__(
            Stage(L.Convolution2D(1, 6, 5), F.sigmoid, pool),
            Stage(L.Convolution2D(6, 16, 5), F.sigmoid, pool),
            Stage(L.Convolution2D(16, 120, 4), F.sigmoid),
            Stage(L.Linear(120, 84), F.sigmoid),
            Stage(L.Linear(84, 10)),
        )

    def forward(self, x):
        for stage in self:
            x = stage(x)
        return x if chainer.config.train else F.softmax(x)


def main(arguments=None):
    parser = options.parser(__doc__, steps=150, batch_size=32, images=32, alpha=0.005)
    parser.add_argument("--form", choices=["chain", "list"], default="chain")
    args = parser.parse_args(arguments)
    device = options.begin(args)
    model = (LeNet5 if args.form == "chain" else LeNet5List)().to_device(device)
    data = image_loop.digits(args.images)
    optimizer = chainer.optimizers.Adam(args.alpha)
    losses = image_loop.train(model, optimizer, data, device, args.steps, args.batch_size)
    right = image_loop.accuracy(model, data, device)
    print(f"loss {float(losses[0]):.3f}, then {float(losses[-1]):.3f}; accuracy {right:.3f}")
    return model, losses, right


if __name__ == "__main__":
    main()
