"""Write the files of a restore in threads, while the next ones are read from the store."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Self

from clew.model.file_tree import Entry

THREADS = 2
# Files that are written together, at most so many and about so many bytes; and folders that wait for theirs.
GROUP_FILES = 100
GROUP_BYTES = 4 * 1024 * 1024
GROUP_FOLDERS = 50
# How many groups are under way; each is in memory.
GROUPS = 4


class File(NamedTuple):
    """A file to be written into an open folder."""

    folder: int
    entry: Entry
    data: bytes
    is_new: bool


class Writing:
    """Files on their way into folders; a folder is closed when all files before it are written."""

    def __init__(self, write: Callable[[File], None]) -> None:
        self._write = write
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="clew-restore")
        self._group: list[File] = []
        self._group_bytes = 0
        self._ending: list[tuple[int, int | None]] = []
        """The folders that wait for files of the group, with their modes."""
        self._steps: deque[Future[None] | tuple[int, int | None]] = deque()
        """In order: groups that are being written, and folders that are closed after them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            # A thread must not write into a folder whose descriptor means another one by now.
            self._threads.shutdown(cancel_futures=True)
            for step in [*self._steps, *self._ending]:
                if isinstance(step, tuple):
                    os.close(step[0])

    def add(self, file: File) -> None:
        """Write a file soon."""
        self._group.append(file)
        self._group_bytes += len(file.data)
        if self._group_bytes >= GROUP_BYTES or len(self._group) >= GROUP_FILES:
            self._submit()

    def close(self, folder: int, mode: int | None = None) -> None:
        """Give a folder its mode, if there is one, and close it when all files so far are written."""
        self._ending.append((folder, mode))
        if len(self._ending) >= GROUP_FOLDERS:
            self._submit()

    def finish(self) -> None:
        """Wait until everything is written."""
        self._submit()
        while self._steps:
            self._take()

    def _submit(self) -> None:
        group, self._group, self._group_bytes = self._group, [], 0
        if group:
            self._steps.append(self._threads.submit(self._write_group, group))
        self._steps.extend(self._ending)
        self._ending = []
        while sum(isinstance(step, Future) for step in self._steps) > GROUPS or len(self._steps) > 3 * GROUP_FOLDERS:
            self._take()

    def _take(self) -> None:
        step = self._steps[0]
        if isinstance(step, Future):
            step.result()
            self._steps.popleft()
            return
        self._steps.popleft()
        folder, mode = step
        try:
            if mode is not None:
                os.fchmod(folder, mode)
        finally:
            os.close(folder)

    def _write_group(self, group: list[File]) -> None:
        for file in group:
            self._write(file)
