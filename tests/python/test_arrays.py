"""speechshard.Array: buffer protocol, DLPack, elements; memory that lives as long as any view."""

import ctypes
import gc
import hashlib
import sys
import unittest

import support  # first: it skips where the package is missing
import speechshard


def capsule_name(capsule):
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule)


class ArrayTest(unittest.TestCase):
    def setUp(self):
        self.dataset = speechshard.Dataset(support.make_dataset("plain", 40))
        self.mono = next(u for u in self.dataset if u.channels == 1).audio()
        self.stereo = next(u for u in self.dataset if u.channels == 2).audio()

    def test_buffer(self):
        view = memoryview(self.stereo)
        self.assertEqual((view.format, view.itemsize, view.ndim), ("h", 2, 2))
        self.assertEqual(view.shape, self.stereo.shape)
        self.assertFalse(view.readonly)
        self.assertTrue(view.c_contiguous)
        self.assertEqual(view.tolist(), self.stereo.tolist())
        rows = self.stereo[::3]
        self.assertFalse(memoryview(rows).c_contiguous)
        self.assertEqual(rows.tolist(), self.stereo.tolist()[::3])
        with self.assertRaises(BufferError):
            hashlib.sha256(rows)
        self.assertEqual(bytes(memoryview(self.mono)), bytes(self.mono))

    def test_elements(self):
        want = self.stereo.tolist()
        self.assertEqual(len(self.stereo), len(want))
        self.assertEqual(self.stereo[-1].tolist(), want[-1])
        self.assertEqual(self.stereo[3][1], want[3][1])
        self.assertEqual(self.stereo[5:2:-2].tolist(), want[5:2:-2])
        self.assertEqual(self.stereo[::-1][::-1].tolist(), want)
        self.assertEqual(self.stereo[9:9].tolist(), [])
        self.assertEqual(list(self.mono[:5]), self.mono.tolist()[:5])
        for index in (len(want), -len(want) - 1):
            with self.assertRaises(IndexError):
                self.stereo[index]
        for key in ((0, 1), "x", None, 1.0):
            with self.assertRaises(TypeError):
                self.stereo[key]
        self.assertEqual(repr(self.mono[:5]), "speechshard.Array(shape=(5,), dtype='int16')")

    def test_numpy_shares_memory(self):
        numpy = support.numpy_or_skip(self)
        array = self.stereo.numpy()
        self.assertEqual((array.dtype, array.shape), (numpy.int16, self.stereo.shape))
        array[2, 1] = 4242
        self.assertEqual(self.stereo[2][1], 4242)
        for key in (slice(None), slice(None, None, -1), slice(4, 1, -1), slice(1, None, 7)):
            numpy.testing.assert_array_equal(numpy.asarray(self.stereo[key]), array[key])

    def test_numpy_from_dlpack(self):
        numpy = support.numpy_or_skip(self)
        for source in (self.mono, self.stereo, self.stereo[::-2], self.mono[:0]):
            array = numpy.from_dlpack(source)
            self.assertEqual(array.dtype, numpy.int16)
            numpy.testing.assert_array_equal(array, numpy.asarray(source))

    def test_dlpack_versions(self):
        self.assertEqual(self.mono.__dlpack_device__(), (1, 0))
        self.assertEqual(capsule_name(self.mono.__dlpack__()), b"dltensor")
        self.assertEqual(capsule_name(self.mono.__dlpack__(max_version=(0, 8))), b"dltensor")
        versioned = self.mono.__dlpack__(max_version=(1, 3), dl_device=(1, 0), copy=False)
        self.assertEqual(capsule_name(versioned), b"dltensor_versioned")
        for wrong in ({"stream": 1}, {"dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                self.mono.__dlpack__(**wrong)
        for wrong in ({"max_version": 1}, {"max_version": ("a", 0)}, {"other": 1}):
            with self.assertRaises(TypeError):
                self.mono.__dlpack__(**wrong)

    def test_dlpack_fields(self):
        """The DLPack ABI, read like a consumer reads it."""

        class Tensor(ctypes.Structure):
            _fields_ = [
                ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
            ]  # fmt: skip

        class Versioned(ctypes.Structure):
            _fields_ = [
                ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor),
            ]  # fmt: skip

        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        rows = self.stereo[1::3]
        for copy, flags in ((None, 0), (True, 2)):
            capsule = rows.__dlpack__(max_version=(1, 0), copy=copy)
            managed = Versioned.from_address(get(capsule, b"dltensor_versioned"))
            tensor = managed.tensor
            self.assertEqual((managed.major, managed.flags), (1, flags))
            self.assertEqual((tensor.ndim, tensor.code, tensor.bits, tensor.lanes), (2, 0, 16, 1))
            self.assertEqual((tensor.device_type, tensor.device_id), (1, 0))
            self.assertEqual(tuple(tensor.shape[:2]), rows.shape)
            self.assertEqual(tensor.strides[:2], [2, 1] if copy else [6, 1])
            first = ctypes.c_int16.from_address(tensor.data + tensor.byte_offset)
            self.assertEqual(first.value, rows[0][0])
        plain = Tensor.from_address(get(self.mono.__dlpack__(), b"dltensor"))
        self.assertEqual((plain.ndim, plain.bits, plain.shape[0]), (1, 16, len(self.mono)))

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("there is no torch")
        tensor = torch.from_dlpack(self.stereo)
        self.assertEqual(tensor.dtype, torch.int16)
        self.assertEqual(tensor.tolist(), self.stereo.tolist())
        tensor[0, 0] = 99
        self.assertEqual(self.stereo[0][0], 99)

    def test_views_outlive_everything(self):
        numpy = support.numpy_or_skip(self)
        before = sys.getrefcount(speechshard.Array)
        want = self.mono.tolist()
        views = [memoryview(self.mono), numpy.from_dlpack(self.mono), self.mono.numpy(),
                 self.mono[::1], self.mono[::1][::1]]
        self.dataset.close()
        del self.mono
        gc.collect()
        for view in views:
            self.assertEqual(view.tolist(), want)
        views.clear()
        del view
        gc.collect()
        self.assertEqual(sys.getrefcount(speechshard.Array), before - 1)

    def test_capsules_that_nobody_takes(self):
        before = sys.getrefcount(speechshard.Array), sys.getrefcount(self.mono)
        for _ in range(100):
            self.mono.__dlpack__()
            self.mono.__dlpack__(max_version=(1, 0), copy=True)
        self.assertEqual((sys.getrefcount(speechshard.Array), sys.getrefcount(self.mono)), before)


if __name__ == "__main__":
    support.main()
