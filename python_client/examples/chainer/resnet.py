"""A residual network (He et al. 2015) of any depth and width, on digits in 32 by 32 pixels.

    python -m chx run resnet.py --device native:0 --blocks 3,8,36,3

--blocks 3,8,36,3 --width 64 is ResNet-152.
"""

import chainer
import chainer.functions as F
import chainer.links as L
import image_loop
import options


class Bottleneck(chainer.Chain):
    """Three convolutions around a narrower middle, added to the input or to a projection of it."""

    def __init__(self, inputs, middle, stride, project):
        super().__init__()
        outputs = middle * 4
        he = chainer.initializers.HeNormal()
        with self.init_scope():
            self.conv1 = L.Convolution2D(inputs, middle, 1, stride, nobias=True, initialW=he)
            self.norm1 = L.BatchNormalization(middle)
            self.conv2 = L.Convolution2D(middle, middle, 3, 1, 1, nobias=True, initialW=he)
            self.norm2 = L.BatchNormalization(middle)
            self.conv3 = L.Convolution2D(middle, outputs, 1, nobias=True, initialW=he)
            self.norm3 = L.BatchNormalization(outputs)
            if project:
                self.project = L.Convolution2D(inputs, outputs, 1, stride, nobias=True, initialW=he)
                self.norm4 = L.BatchNormalization(outputs)
        self.has_projection = project

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        h = F.relu(self.norm2(self.conv2(h)))
        h = self.norm3(self.conv3(h))
        return F.relu(h + (self.norm4(self.project(x)) if self.has_projection else x))


class ResNet(chainer.Chain):
    """Logits while training, probabilities otherwise."""

    def __init__(self, blocks, width, classes=10):
        super().__init__()
        stages = chainer.ChainList()
        channels = width
        for i, count in enumerate(blocks):
            stage = chainer.Sequential()
            for j in range(count):
                stride = 2 if i > 0 and j == 0 else 1
                stage.append(Bottleneck(channels, width * 2**i, stride, j == 0))
                channels = width * 2**i * 4
            stages.append(stage)
        with self.init_scope():
            self.conv = L.Convolution2D(3, width, 3, 1, 1, nobias=True)
            self.norm = L.BatchNormalization(width)
            self.stages = stages
            self.full = L.Linear(channels, classes)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        for stage in self.stages:
            x = stage(x)
        x = self.full(F.average_pooling_2d(x, x.shape[2:]))
        return x if chainer.config.train else F.softmax(x)


def main(arguments=None):
    parser = options.parser(
        __doc__, steps=10, batch_size=16, images=64, blocks="1,1,1,1", width=8, lr=0.05
    )
    args = parser.parse_args(arguments)
    device = options.begin(args)
    model = ResNet([int(n) for n in args.blocks.split(",")], args.width).to_device(device)
    data = image_loop.digits(args.images, 32, 3)
    optimizer = chainer.optimizers.MomentumSGD(args.lr)
    losses = image_loop.train(model, optimizer, data, device, args.steps, args.batch_size)
    print(f"loss {float(losses[0]):.3f}, then {float(losses[-1]):.3f}")
    return model, losses, image_loop.accuracy(model, data, device)


if __name__ == "__main__":
    main()
