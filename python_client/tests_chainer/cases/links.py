"""Links of Chainer's: how to make each, and what to call it with.

A case is a function that makes the link, its inputs, and, where it is not called as most are, a
function of the link and the inputs. An input is the shape of a float array, a pair of a bound and
the shape of an array of integers below it, or a list of such.
"""

import chainer.links as L
import numpy as np

IMAGES = [(2, 4, 8, 8)]
ROWS = [(3, 4)]
STATES = [(3, 5)]


def of_sequences(link, xs):
    return link(None, xs)


def of_sequences_with_cells(link, xs):
    return link(None, None, xs)


def _n_step(name):
    call = of_sequences_with_cells if "LSTM" in name else of_sequences
    return lambda: getattr(L, name)(2, 4, 5, 0), [[(3, 4), (2, 4)]], call


def _huffman():
    tree = L.BinaryHierarchicalSoftmax.create_huffman_tree({0: 4, 1: 3, 2: 2, 3: 1})
    return L.BinaryHierarchicalSoftmax(4, tree)


N_STEP = ("NStepGRU", "NStepLSTM", "NStepRNNReLU", "NStepRNNTanh")

LINKS = {
    "BatchNormalization": (lambda: L.BatchNormalization(4), IMAGES),
    "BatchRenormalization": (lambda: L.BatchRenormalization(4), IMAGES),
    "Bias": (lambda: L.Bias(1, (4,)), ROWS),
    "Bilinear": (lambda: L.Bilinear(4, 3, 5), [(3, 4), (3, 3)]),
    "BinaryHierarchicalSoftmax": (_huffman, [(3, 4), (4, (3,))]),
    "BlackOut": (lambda: L.BlackOut(4, [4, 3, 2, 1], 2), [(3, 4), (4, (3,))]),
    "CRF1d": (lambda: L.CRF1d(4), [[(3, 4), (2, 4)], [(4, (3,)), (4, (2,))]]),
    "ChildSumTreeLSTM": (lambda: L.ChildSumTreeLSTM(4, 5), STATES * 4 + ROWS),
    "Classifier": (lambda: L.Classifier(L.Linear(4, 5)), [(3, 4), (5, (3,))]),
    "Convolution1D": (lambda: L.Convolution1D(4, 3, 3), [(2, 4, 8)]),
    "Convolution2D": (lambda: L.Convolution2D(4, 3, 3), IMAGES),
    "Convolution3D": (lambda: L.Convolution3D(4, 3, 2), [(1, 4, 4, 4, 4)]),
    "ConvolutionND": (lambda: L.ConvolutionND(2, 4, 3, 3), IMAGES),
    "Deconvolution1D": (lambda: L.Deconvolution1D(4, 3, 3), [(2, 4, 8)]),
    "Deconvolution2D": (lambda: L.Deconvolution2D(4, 3, 3), IMAGES),
    "Deconvolution3D": (lambda: L.Deconvolution3D(4, 3, 2), [(1, 4, 4, 4, 4)]),
    "DeconvolutionND": (lambda: L.DeconvolutionND(2, 4, 3, 3), IMAGES),
    "DecorrelatedBatchNormalization": (
        lambda: L.DecorrelatedBatchNormalization(4, groups=2),
        [(9, 4)],
    ),
    "DeformableConvolution2D": (lambda: L.DeformableConvolution2D(4, 3, 3), IMAGES),
    "DepthwiseConvolution2D": (lambda: L.DepthwiseConvolution2D(4, 2, 3), IMAGES),
    "DilatedConvolution2D": (lambda: L.DilatedConvolution2D(4, 3, 3, dilate=2), IMAGES),
    "EmbedID": (lambda: L.EmbedID(6, 3), [(6, (5,))]),
    "GRU": (lambda: L.GRU(4, 5), ROWS),
    "GroupNormalization": (lambda: L.GroupNormalization(2, 4), IMAGES),
    "Highway": (lambda: L.Highway(4), ROWS),
    "Inception": (lambda: L.Inception(4, 2, 2, 3, 2, 3, 2), IMAGES),
    "InceptionBN": (lambda: L.InceptionBN(4, 2, 2, 3, 2, 3, "avg", 2), IMAGES),
    "LSTM": (lambda: L.LSTM(4, 5), ROWS),
    "LayerNormalization": (lambda: L.LayerNormalization(4), ROWS),
    "Linear": (lambda: L.Linear(4, 5), ROWS),
    "LocalConvolution2D": (lambda: L.LocalConvolution2D(4, 3, (8, 8), 3), IMAGES),
    "MLPConvolution2D": (lambda: L.MLPConvolution2D(4, (3, 2), 3), IMAGES),
    "Maxout": (lambda: L.Maxout(4, 3, 2), ROWS),
    "NaryTreeLSTM": (lambda: L.NaryTreeLSTM(4, 5, 2), STATES * 4 + ROWS),
    "NegativeSampling": (lambda: L.NegativeSampling(4, [4, 3, 2, 1], 2), [(3, 4), (4, (3,))]),
    "PReLU": (lambda: L.PReLU(), IMAGES),
    "Parameter": (lambda: L.Parameter(np.ones((2, 3), "f")), []),
    "Scale": (lambda: L.Scale(1, (4,)), ROWS),
    "SimplifiedDropconnect": (lambda: L.SimplifiedDropconnect(4, 5, 0.0), ROWS),
    "StatefulGRU": (lambda: L.StatefulGRU(4, 5), ROWS),
    "StatefulMGU": (lambda: L.StatefulMGU(4, 5), ROWS),
    "StatefulPeepholeLSTM": (lambda: L.StatefulPeepholeLSTM(4, 5), ROWS),
    "StatefulZoneoutLSTM": (lambda: L.StatefulZoneoutLSTM(4, 5, c_ratio=0, h_ratio=0), ROWS),
    "StatelessGRU": (lambda: L.StatelessGRU(4, 5), STATES + ROWS),
    "StatelessLSTM": (lambda: L.StatelessLSTM(4, 5), STATES * 2 + ROWS),
    "StatelessMGU": (lambda: L.StatelessMGU(4, 5), STATES + ROWS),
    "Swish": (lambda: L.Swish((4,)), ROWS),
    **{name: _n_step(name) for name in N_STEP},
    **{name: _n_step(name) for name in (n.replace("Step", "StepBi") for n in N_STEP)},
}

#: Pre-trained networks, whose weights are downloads, and Theano's functions.
OTHERS = {
    "GoogLeNet",
    "ResNet101Layers",
    "ResNet152Layers",
    "ResNet50Layers",
    "TheanoFunction",
    "VGG16Layers",
    "VGG19Layers",
}

#: A NumPy function of Chainer's, in this process.
FALL_BACK = {"BinaryHierarchicalSoftmax": {"links.loss.hierarchical_softmax"}}
