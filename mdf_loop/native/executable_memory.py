"""Check that the process may execute memory that it has written, which compiled code requires.

Hardened systems do not allow this: systemd's `MemoryDenyWriteExecute=yes`, SELinux without `execmem`,
`prctl(PR_SET_MDWE)`, Windows' Arbitrary Code Guard. LLVM does not report the refusal. A call of the compiled
code then ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

MEM_COMMIT_AND_RESERVE = 0x3000
MEM_RELEASE = 0x8000
PAGE_READWRITE = 0x04
PAGE_EXECUTE_READ = 0x20


def executable_memory_problem() -> str | None:
    """Return the reason why this process cannot execute memory that it wrote, or None.

    The check maps a page, writes to the page and makes the page executable, as LLVM does. The check executes
    no code.
    """
    try:
        _make_page_executable()
    except (OSError, MemoryError) as error:
        failure_reason = getattr(error, "strerror", None) or type(error).__name__
        return f"this system does not allow memory that can be executed ({failure_reason})"
    return None


def _make_page_executable() -> None:
    """Try to make a memory page executable after a write to the page, and release the page.

    Raises:
        OSError: The system refuses one of these steps.
    """
    if sys.platform == "win32":
        _make_windows_page_executable()
    else:
        _make_posix_page_executable()


def _make_posix_page_executable() -> None:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    mapping_flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(
        -1, mmap.PAGESIZE, mapping_flags, mmap.PROT_READ | mmap.PROT_WRITE
    ) as memory_page:
        memory_page[0] = 1
        page_view = ctypes.c_char.from_buffer(memory_page)
        page_address = ctypes.c_void_p(ctypes.addressof(page_view))
        del page_view  # a page with a view cannot be closed
        page_size = ctypes.c_size_t(mmap.PAGESIZE)
        if libc.mprotect(page_address, page_size, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            error_number = ctypes.get_errno()
            raise OSError(error_number, os.strerror(error_number))


def _make_windows_page_executable() -> None:
    if sys.platform != "win32":
        return
    kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel32.VirtualAlloc.restype = ctypes.c_void_p
    page_size = ctypes.c_size_t(mmap.PAGESIZE)
    page_address = kernel32.VirtualAlloc(None, page_size, MEM_COMMIT_AND_RESERVE, PAGE_READWRITE)
    if not page_address:
        raise ctypes.WinError(ctypes.get_last_error())
    try:
        ctypes.memset(page_address, 1, 1)
        former_protection = ctypes.c_uint32()
        if not kernel32.VirtualProtect(
            ctypes.c_void_p(page_address),
            page_size,
            PAGE_EXECUTE_READ,
            ctypes.byref(former_protection),
        ):
            raise ctypes.WinError(ctypes.get_last_error())
    finally:
        kernel32.VirtualFree(ctypes.c_void_p(page_address), ctypes.c_size_t(0), MEM_RELEASE)
