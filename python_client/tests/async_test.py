"""Reads that are awaited: values, order, errors, cancellation, loops, ends."""

import asyncio
import gc
import threading
import time
import weakref

import chx
import numpy as np
import pytest


@pytest.fixture
def session():
    with chx.connect() as session:
        yield session


def test_values(session):
    async def main():
        x = chx.array(np.arange(6.0).reshape(2, 3))
        values = await (x + 1).to_numpy_async()
        assert isinstance(values, np.ndarray) and values.dtype == np.float64
        np.testing.assert_array_equal(values, np.arange(1.0, 7).reshape(2, 3))
        values[0, 0] = 9  # it is the caller's
        assert await x.sum().item_async() == 15.0
        assert await x.astype("int32").tolist_async() == [[0, 1, 2], [3, 4, 5]]
        assert await chx.synchronize_async() is None
        assert await session.synchronize_async() is None
        large = chx.full((1 << 20,), 2.0)
        assert (await large.to_numpy_async() == 2).all()

    asyncio.run(main())
    assert asyncio.run(chx.ones(2).to_numpy_async()).tolist() == [1.0, 1.0]


def test_an_array_of_a_graph(session):
    async def main():
        w = chx.array([1.0, 2.0]).require_grad()
        (w * w).sum().backward()
        assert await w.grad.tolist_async() == [2.0, 4.0]
        assert await w.tolist_async() == [1.0, 2.0] and w.grad is not None

    asyncio.run(main())


def test_memory_without_a_copy(session):
    async def main():
        x = chx.zeros((1000,))
        values = await x.to_numpy_async(copy=False)
        x += 1
        assert (values == 1).all()

    asyncio.run(main())


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_the_values_are_those_of_the_call(session, size):
    async def main():
        x = chx.zeros((size,))
        reads = []
        for _ in range(5):
            reads.append(x.to_numpy_async())
            x += 1
        for i, values in enumerate(await asyncio.gather(*reads)):
            assert (values == i).all()

    asyncio.run(main())


def test_the_loop_goes_on_while_a_read_waits(session, paused):
    async def main():
        x = chx.ones((3,))
        ticks = 0
        with paused(session):
            reads = [asyncio.create_task((x * i).tolist_async()) for i in range(3)]
            for _ in range(20):
                await asyncio.sleep(0.005)
                ticks += 1
            assert not any(read.done() for read in reads)
        assert await asyncio.gather(*reads) == [[float(i)] * 3 for i in range(3)]
        assert ticks == 20

    asyncio.run(main())


def test_a_cancelled_task_ends_its_wait_alone(session, paused):
    async def main():
        x = chx.ones((3,))
        with paused(session):
            first = asyncio.create_task(x.tolist_async())
            second = asyncio.create_task((x + 1).tolist_async())
            third = asyncio.create_task((x + 2).tolist_async())
            await asyncio.sleep(0.05)
            first.cancel()
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            with pytest.raises(asyncio.CancelledError):
                await second
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(x.sum().item_async(), 0.05)
            assert not third.done()
        assert await third == [3.0] * 3
        assert await x.sum().item_async() == 3.0

    asyncio.run(main())


def test_errors(session):
    async def main():
        bad = chx.take(chx.arange(3), chx.array([7]), 0)
        for read in (bad.to_numpy_async(), bad.item_async(), (bad + 1).tolist_async()):
            with pytest.raises(IndexError, match="take.*7"):
                await read
        with pytest.raises(chx.DimensionError, match="one element"):
            chx.ones(3).item_async()
        assert await chx.ones(1).item_async() == 1

    asyncio.run(main())


def test_several_loops(session):
    """One for each of some threads, and one after another."""
    x = chx.array(np.arange(1000.0))
    failures = []

    async def main(number):
        for i in range(20):
            values = await asyncio.gather(*((x * i + number).to_numpy_async() for _ in range(3)))
            for value in values:
                np.testing.assert_array_equal(value, np.arange(1000.0) * i + number)

    def run(number):
        try:
            asyncio.run(main(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(9)
    assert not failures


def test_one_thread_waits_for_a_session(session):
    before = threading.active_count()

    async def main():
        x = chx.ones(3)
        await asyncio.gather(*((x + i).tolist_async() for i in range(50)))
        assert threading.active_count() == before + 1

    asyncio.run(main())
    session.close()
    assert threading.active_count() == before


def test_closing_fails_what_waits(session, paused):
    async def main():
        x = chx.ones(3)
        gone = weakref.ref(x)
        with paused(session):
            read = asyncio.create_task(x.tolist_async())
            await asyncio.sleep(0.05)
        await read
        session.close()
        with pytest.raises(ConnectionError, match="closed"):
            await x.tolist_async()
        with pytest.raises(ConnectionError, match="closed"):
            await session.synchronize_async()
        with pytest.raises(ConnectionError, match="closed"):
            await chx.synchronize_async()
        del x, read
        gc.collect()
        assert gone() is None

    asyncio.run(main())


def test_reads_keep_nothing(session):
    async def main():
        x = chx.ones(1000)
        gone = weakref.ref(x)
        await x.to_numpy_async()
        del x
        deadline = time.monotonic() + 10
        while gone() is not None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert gone() is None

    asyncio.run(main())


def test_many_at_once_beside_calls_that_block(session):
    x = chx.ones((100, 100))

    async def main():
        reads = []
        for i in range(200):
            reads.append(((x * i) @ x).sum().item_async())
            if i % 50 == 0:
                assert float(x[0, 0]) == 1
        assert await asyncio.gather(*reads) == [i * 1e6 for i in range(200)]

    asyncio.run(main())
