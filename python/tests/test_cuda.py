"""Minibatches for a GPU, with a simulated CUDA driver and events: page-locked until copied."""

import ctypes
import gc
import importlib.util
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from cntk_reader import MinibatchSource, from_arrays

#: A driver that counts registrations, and refuses calls without a current context.
DRIVER = """
#include <stddef.h>
static __thread void *current;
static void *starts[1000];
static size_t sizes[1000];
static int context;
int device = -1;
int cuInit(unsigned flags) { return flags; }
int cuDeviceGet(int *handle, int number) { *handle = 100 + number; return number > 1; }
int cuDevicePrimaryCtxRetain(void **to, int handle) { device = handle; *to = &context; return 0; }
int cuCtxPushCurrent_v2(void *pushed) { if (current) return 1; current = pushed; return 0; }
int cuCtxPopCurrent_v2(void **popped) { *popped = current; current = NULL; return 0; }
int cuMemHostRegister_v2(void *start, size_t size, unsigned flags) {
    for (int place = 0; place < 1000 && current == &context && flags == 1; place++)
        if (__sync_bool_compare_and_swap(&starts[place], NULL, start)) { sizes[place] = size; return 0; }
    return 1;
}
int cuMemHostUnregister(void *start) {
    for (int place = 0; place < 1000 && current == &context; place++)
        if (__sync_bool_compare_and_swap(&starts[place], start, NULL)) return 0;
    return 1;
}
int is_registered(char *from, size_t size) {
    for (int place = 0; place < 1000; place++) {
        char *start = starts[place];
        if (start && start <= from && from + size <= start + sizes[place]) return 1;
    }
    return 0;
}
int registered(void) {
    int count = 0;
    for (int place = 0; place < 1000; place++) count += starts[place] != NULL;
    return count;
}
"""


def open_source():
    values = np.arange(64 * 50_000, dtype=np.int32).reshape(64, 50_000)
    return MinibatchSource(from_arrays(x=values), randomize=False, minibatch_size=4, max_sweeps=1)


class PageLock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        source, cls.library = Path(folder.name) / "driver.c", f"{folder.name}/libdriver.so"
        source.write_text(DRIVER)
        command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", cls.library, source]
        subprocess.run(command, check=True, capture_output=True)
        cls.driver = ctypes.CDLL(cls.library)

    def is_registered(self, array):
        return bool(self.driver.is_registered(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)))

    def test_minibatches_page_locked_until_freed(self):
        source = open_source()
        self.assertTrue(source._lock_pages(1, self.library))
        self.assertEqual(ctypes.c_int.in_dll(self.driver, "device").value, 101)
        kept = []
        for _ in range(3):
            for minibatch in source:
                array = minibatch["x"].array
                self.assertTrue(self.is_registered(array))
                kept = [*kept[-1:], array]
        source.close()
        del source, minibatch
        gc.collect()
        self.assertTrue(all(self.is_registered(array) for array in kept))
        self.assertEqual(kept[-1].ravel()[-1], 64 * 50_000 - 1)
        del kept, array
        gc.collect()
        self.assertEqual(self.driver.registered(), 0)

    def test_missing_driver_or_device_is_ignored(self):
        source = open_source()
        for device, library in ((0, "libno-such-driver.so"), (7, self.library), (0, "libc.so.6")):
            self.assertFalse(source._lock_pages(device, library))
        self.assertEqual(sum(len(minibatch["x"].array[0]) for minibatch in source), 64)
        self.assertEqual(self.driver.registered(), 0)

    def test_closed_source(self):
        source = open_source()
        source.close()
        with self.assertRaisesRegex(Exception, "closed"):
            source._lock_pages(0, self.library)


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Copies(unittest.TestCase):
    """The simulated GPU copies as late as possible, when an event is waited for; the data must be
    intact."""

    def setUp(self):
        import torch
        from cntk_reader import _torch_items
        from cntk_reader.torch import Dataset

        self.torch, self.module, self.dataset = torch, _torch_items, Dataset
        self.started, self.copied = [], []
        test = self

        class Event:
            def record(self, stream):
                test.assertEqual(stream, "stream")
                self.started, test.started = test.started, []

            def query(self):
                return not self.started

            def synchronize(self):
                test.copied += [tensor.clone() for tensor in self.started]
                self.started = []

        # A view of the memory that keeps nothing alive, like the GPU's.
        def view(tensor):
            count = tensor.numel()
            return torch.frombuffer((ctypes.c_int32 * count).from_address(tensor.data_ptr()), dtype=torch.int32)

        def start_view(value, device, pin):
            self.started.append(view(pin(value["x"]) if self.pins else value["x"]))
            return len(self.started)

        # Memory of the program, counted.
        self.pins, self.buffers = False, []

        def new_pinned(size):
            self.buffers.append(size)
            return torch.empty(size, dtype=torch.uint8)

        patches = (
            mock.patch.object(self.module, "copied", start_view),
            mock.patch.object(self.module, "new_pinned", new_pinned),
            mock.patch.object(torch.cuda, "Event", Event),
            mock.patch.object(torch.cuda, "current_stream", lambda device: "stream"),
            mock.patch.object(torch.cuda, "current_device", lambda: 0),
        )
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def check(self, minibatches):
        self.assertEqual(len(self.copied), minibatches)
        for number, tensor in enumerate(self.copied):
            start = number % 16 * 200_000
            self.assertEqual((int(tensor[0]), int(tensor[-1])), (start, start + 199_999))

    def test_minibatches_kept_until_copied(self):
        dataset = self.dataset(open_source(), device="cuda")
        for _ in range(3):
            for _ in dataset:
                pass
        self.check(48)

    def test_pinned_buffers_are_used_again(self):
        self.pins = True
        dataset = self.dataset(open_source(), device="cuda")
        for _ in range(3):
            for _ in dataset:
                pass
        self.check(48)
        # As many as minibatches may wait, and the one that is being filled.
        self.assertLessEqual(len(self.buffers), 9)
        self.assertEqual(len(set(self.buffers)), 1)

    def test_buffers_of_other_sizes(self):
        pool = self.module.PinnedPool()
        small, large = pool.take(1000), pool.take(100_000)
        pool.give_back([small, large])
        # The smallest that fits; none is taken for far fewer bytes.
        self.assertIs(pool.take(900), small)
        self.assertIs(pool.take(90_000), large)
        pool.give_back([large])
        self.assertIsNot(pool.take(1000), large)
        pool.give_back([self.torch.empty(512, dtype=self.torch.uint8) for _ in range(1000)])
        self.assertLessEqual(len(pool._free), 64)

    def test_abandoned_loop_waits_for_copies(self):
        dataset = self.dataset(open_source(), device="cuda:0")
        loop = iter(dataset)
        for _ in range(5):
            next(loop)
        loop.close()
        self.check(5)
        self.assertEqual(self.started, [])

    def test_error_while_copying(self):
        dataset = self.dataset(open_source(), device="cuda")
        start_view = self.module.copied

        def fail(value, device, pin):
            start_view(value, device, pin)
            raise MemoryError("CUDA out of memory")

        with mock.patch.object(self.module, "copied", fail), self.assertRaisesRegex(MemoryError, "out of memory"):
            next(iter(dataset))
        gc.collect()
        self.check(1)


if __name__ == "__main__":
    unittest.main()
