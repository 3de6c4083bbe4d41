"""`cached_property` computes once per object and takes no lock."""

from __future__ import annotations

import threading

from mdf_loop.cached_property import cached_property


class Squares:
    """A class that counts the computations of its property."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0

    @cached_property
    def square(self) -> int:
        """Square of the number."""
        self.calls += 1
        return self.number**2


def test_the_property_is_computed_once_per_object() -> None:
    three, four = Squares(3), Squares(4)
    assert [three.square, three.square, four.square] == [9, 9, 16]
    assert (three.calls, four.calls) == (1, 1)
    assert Squares.square.func(four) == 16
    assert Squares.square.__doc__ == "Square of the number."


def test_objects_do_not_wait_for_each_other() -> None:
    """Check two objects in two threads, which deadlock with the `cached_property` of Python 3.11."""
    is_computing, may_continue = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits: bool) -> None:
            self.waits = waits

        @cached_property
        def value(self) -> int:
            if self.waits:
                is_computing.set()
                may_continue.wait(60)
            return 1

    thread = threading.Thread(target=lambda: Slow(True).value)
    thread.start()
    is_computing.wait()
    other = threading.Thread(target=lambda: Slow(False).value, daemon=True)
    other.start()
    other.join(30)
    assert not other.is_alive()
    may_continue.set()
    thread.join()
