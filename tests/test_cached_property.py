"""A property that is computed once for each object, and without a lock."""

from __future__ import annotations

import threading

from mdf_loop.cached_property import cached_property


class Squares:
    """Counts how often its property is computed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0

    @cached_property
    def square(self) -> int:
        """The square of the number."""
        self.calls += 1
        return self.number**2


def test_it_is_computed_once_for_each_object() -> None:
    three, four = Squares(3), Squares(4)
    assert [three.square, three.square, four.square] == [9, 9, 16]
    assert (three.calls, four.calls) == (1, 1)
    assert Squares.square.func(four) == 16
    assert Squares.square.__doc__ == "The square of the number."


def test_another_object_does_not_wait_for_it() -> None:
    """Python 3.11's own one lets this wait for ever."""
    is_computing, goes_on = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits: bool) -> None:
            self.waits = waits

        @cached_property
        def value(self) -> int:
            if self.waits:
                is_computing.set()
                goes_on.wait(60)
            return 1

    thread = threading.Thread(target=lambda: Slow(True).value)
    thread.start()
    is_computing.wait()
    other = threading.Thread(target=lambda: Slow(False).value, daemon=True)
    other.start()
    other.join(30)
    assert not other.is_alive()
    goes_on.set()
    thread.join()
