"""Calls beside the op stream outlast a network that is away for a moment."""

import math
import threading

import chx

from .proxy import CLEAR, Weather
from .world import TOKEN, World

AWAY = Weather(cut_by_bytes=1, most_bytes=1, lifetime=math.inf, dribble=0, delay=0, ways=("close",))


def test_a_cancel_gets_through_when_the_network_is_back():
    with World("unix", 1) as world:
        proxy = world.proxy(CLEAR)
        with chx.connect(proxy.address, token=TOKEN) as session:
            a = chx.zeros((3,))
            session.synchronize()
            proxy.weather = AWAY
            proxy.cut_all()
            back = threading.Timer(0.7, setattr, (proxy, "weather", CLEAR))
            back.start()
            session.cancel()
            back.join()
            a += 1
            assert chx.ones((3,)).tolist() == [1, 1, 1]
            assert a.tolist() == [1, 1, 1]
