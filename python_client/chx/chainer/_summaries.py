"""Summaries of numbers in the daemon: adding them costs no wait and next to no command.

What is added is copied in the daemon, all that comes together by one command. It is read when somebody
wants a sum, or when much has come together, and added up here, by Chainer, as NumPy's numbers are.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import threading

from chainer import reporter

import chx
from chx._compat import zip_strict
from chx.chainer import _reading

Summary = reporter.Summary
DictSummary = reporter.DictSummary

#: So many numbers of a summary are kept in the daemon at most.
LIMIT = 256

_add = Summary.add
_add_dict = DictSummary.add


class _Row:
    """Numbers that came together."""

    __slots__ = ("array", "values")

    def __init__(self, array):
        self.array = array
        self.values = None


class _Number:
    """A number of a row."""

    __slots__ = ("row", "index", "dtype")

    def __init__(self, row, index, dtype):
        self.row = row
        self.index = index
        self.dtype = dtype


class _Collected(threading.local):
    """What the dictionary that is being added has of the daemon: (summary, value, weight)."""

    terms = None


_collected = _Collected()


def _numbers_of(values):
    """Values, with a _Number for what is in the daemon: it may change there after this."""
    values = list(values)
    groups = collections.defaultdict(list)
    for i, value in enumerate(values):
        if isinstance(value, chx.ndarray):
            # Floats may share a row: the widest dtype has the values of all.
            kind = "f" if value.dtype.kind == "f" else value.dtype
            groups[value.device, kind].append(i)
    for indices in groups.values():
        row = _Row(_reading.packed([values[i] for i in indices]))
        for place, i in enumerate(indices):
            values[i] = _Number(row, place, values[i].dtype)
    return values


def _take(terms):
    """Adds to summaries what is in the daemon: (summary, value, weight) each."""
    if not terms:
        return
    numbers = _numbers_of(itertools.chain.from_iterable(term[1:] for term in terms))
    full = False
    for i, (summary, _, _) in enumerate(terms):
        pending = vars(summary).setdefault("_chx_pending", [])
        pending.append(numbers[2 * i : 2 * i + 2])
        full = full or len(pending) >= LIMIT
    if full:
        settle([summary for summary, _, _ in terms])


def _value_of(number):
    if not isinstance(number, _Number):
        return number
    return number.dtype.type(number.row.values[number.index])


def settle(summaries):
    """Adds up what summaries have in the daemon; one wait for each device and dtype."""
    pending = [(s, vars(s)["_chx_pending"]) for s in summaries if vars(s).get("_chx_pending")]
    numbers = [n for _, terms in pending for term in terms for n in term if isinstance(n, _Number)]
    rows = list({id(n.row): n.row for n in numbers if n.row.values is None}.values())
    for row, values in zip_strict(rows, _reading.read([row.array for row in rows])):
        row.values, row.array = values, None
    for summary, terms in pending:
        vars(summary)["_chx_pending"] = []
        for value, weight in terms:
            _add(summary, _value_of(value), _value_of(weight))


def add(self, value, weight=1):
    """Adds a number with a weight; either may be a daemon's array without dimensions."""
    if not isinstance(value, chx.ndarray) and not isinstance(weight, chx.ndarray):
        _add(self, value, weight)
    elif _collected.terms is None:
        _take([(self, value, weight)])
    else:
        _collected.terms.append((self, value, weight))


def add_dict(self, d):
    """Adds the numbers among the values of a dictionary, by name; (number, weight) has a weight.

    Raises:
      ValueError: a weight that is not a number.
    """
    before, _collected.terms = _collected.terms, []
    try:
        _add_dict(self, d)
    finally:
        terms, _collected.terms = _collected.terms, before
        _take(terms)


def _settling(call):
    def settling(self, *args):
        settle(self._summaries.values())
        return call(self, *args)

    settling.__doc__ = call.__doc__
    return settling


def _sum(name):
    """A sum of a summary's: of all that has been added when it is asked for."""

    def get(self):
        settle([self])
        with contextlib.suppress(KeyError):
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def put(self, value):
        settle([self])
        vars(self)[name] = value

    return property(get, put)


def adapt(chainer):
    Summary.add = add
    for name in ("_x", "_x2", "_n"):
        setattr(Summary, name, _sum(name))
    DictSummary.add = add_dict
    for name in ("compute_mean", "make_statistics", "serialize"):
        setattr(DictSummary, name, _settling(getattr(DictSummary, name)))
