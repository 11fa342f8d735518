"""speechshard.Loader with a device: DLPack, synchronization, and memory that lives as long as tensors.

The device is the host emulation (tests/support/twin_plugin.c). The host can read its memory, and its work runs
late: a consumer that does not wait reads other values. argv: the emulation."""

import ctypes
import gc
import logging
import os
import sys
import unittest

import support  # first: it skips where the package is missing
import speechshard

TWIN = sys.argv.pop(1)
os.environ["SPEECHSHARD_CUDA_PLUGIN"] = TWIN

# spsh__cuda_plugin of shardfmt/include/speechshard/cuda_plugin.h
NAMES = """count device alloc free copy synchronize fill memory host_alloc host_free host_register
host_unregister stream_open stream_close""".split()


class Plugin(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint32), ("version", ctypes.c_char_p)] + [
        (name, ctypes.c_void_p) for name in NAMES
    ]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


def plugin_call(name, *args):
    table = ctypes.CDLL(TWIN).spsh_cuda_plugin
    table.restype = ctypes.POINTER(Plugin)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(getattr(table().contents, name))
    status = function(*args)
    assert status == 0 or name == "stream_close", (name, status)


def open_stream(device):
    stream = ctypes.c_void_p()
    plugin_call("stream_open", ctypes.c_uint32(device), 0, ctypes.byref(stream), None)
    return stream.value


def synchronize(stream):
    plugin_call("synchronize", ctypes.c_void_p(stream), None)


def used_bytes(device):
    free, everything = ctypes.c_uint64(), ctypes.c_uint64()
    plugin_call("memory", ctypes.c_uint32(device), ctypes.byref(free), ctypes.byref(everything), None)
    return everything.value - free.value


class Taken:
    """Substitute for a framework's tensor: it owns a capsule until it is dropped."""

    def __init__(self, array, **keywords):
        self.capsule = array.__dlpack__(**keywords)
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.tensor = Tensor.from_address(get(self.capsule, b"dltensor"))
        self.shape = tuple(self.tensor.shape[: self.tensor.ndim])

    def read(self):
        count = 1
        for size in self.shape:
            count *= size
        kind = ctypes.c_int16 if self.tensor.code == 0 else ctypes.c_float
        values = list((kind * count).from_address(self.tensor.data)) if count > 0 else []
        for size in reversed(self.shape[1:]):
            values = [values[i : i + size] for i in range(0, len(values), size)]
        return values


class DeviceTest(unittest.TestCase):
    def setUp(self):
        self.path = support.make_dataset("plain", 60)
        self.options = {"seed": 5, "max_seconds": 1.5, "window": 30, "memory_bytes": 64 << 20}

    def tearDown(self):
        gc.collect()
        self.assertEqual([used_bytes(0), used_bytes(1)], [0, 0])

    def compare(self, device, **options):
        """Tensors of several batches are alive at a time, and read late."""
        options = {**self.options, **options}
        number = int(device.partition(":")[2] or 0)
        stream = open_stream(number)
        taken = []
        here = {key: options[key] for key in options if key not in ("decode", "slots")}
        there = speechshard.Loader(self.path, device=device, **options)
        for _ in range(2):
            for host, batch in zip(speechshard.Loader(self.path, **here), there):
                self.assertEqual((batch.ids, batch.texts), (host.ids, host.texts))
                self.assertEqual(batch.offsets.tolist(), host.offsets.tolist())
                self.assertEqual((batch.device, host.device), (device, "cpu"))
                self.assertTrue(batch.ready and host.ready is None)
                want = host.features if "features" in options else host.audio
                array = batch.features if "features" in options else batch.audio
                self.assertEqual(array.__dlpack_device__(), (2, number))
                taken.append((Taken(array, stream=stream), want.tolist()))
                if len(taken) == 4:
                    synchronize(stream)
                    for tensor, values in taken:
                        self.assertEqual(tensor.tensor.device_type, 2)
                        self.assertEqual(tensor.tensor.device_id, number)
                        self.assertEqual(tensor.read(), values)
                    taken = taken[2:]
            there.set_epoch(0)
        taken.clear()
        self.assertGreater(there.stats["copied_bytes"], 0)
        there.close()
        del there, batch, array, tensor
        gc.collect()
        plugin_call("stream_close", ctypes.c_void_p(stream))

    def test_values(self):
        for options in (
            {"sample_rate_hz": 16000},
            {"output": "float32"},
            {"features": "kaldi-fbank,mel_count=20"},
            {"features": "kaldi-fbank,mel_count=20", "augment": "time_masks=1,time_mask_frames_max=9"},
        ):
            with self.subTest(**options):
                self.compare("cuda:0", **options)
                self.compare("cuda:1", slots=2, **options)

    def test_kept_batches_are_copied(self):
        self.options["columns"] = ["source", "samples"]
        loader = speechshard.Loader(self.path, device="cuda", slots=2, **self.options)
        batches = list(loader)
        self.assertGreater(len(batches), 4)
        host = list(speechshard.Loader(self.path, **self.options))
        self.assertEqual([batch.columns for batch in batches], [batch.columns for batch in host])
        self.assertTrue(all(batch.columns["samples"] for batch in batches))
        want = [batch.audio.tolist() for batch in host]
        self.assertEqual([batch.audio.tolist() for batch in batches], want)
        loader.close()
        stream = open_stream(0)
        taken = [Taken(batch.audio, stream=stream) for batch in batches]
        del batches, loader
        synchronize(stream)
        self.assertEqual([tensor.read() for tensor in taken], want)
        taken.clear()
        gc.collect()
        plugin_call("stream_close", ctypes.c_void_p(stream))

    def test_streams(self):
        for number in (0, 1):
            with self.subTest(number=number):
                self.give_to_streams(number)

    def give_to_streams(self, number):
        loader = speechshard.Loader(self.path, device=f"cuda:{number}", **self.options)
        said = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: said.append(record.getMessage())
        logging.getLogger("speechshard").addHandler(handler)
        self.addCleanup(logging.getLogger("speechshard").removeHandler, handler)
        batches = iter(loader)
        batch = next(batches)
        streams = [open_stream(number) for _ in range(3)]
        for stream in (None, 1, 2, -1, *streams, *streams):
            batch.audio.__dlpack__(stream=stream)
        for wrong in (0, -2):
            with self.assertRaisesRegex(BufferError, "stream must be None, -1, 1"):
                batch.audio.__dlpack__(stream=wrong)
        with self.assertRaises(TypeError):
            batch.audio.__dlpack__(stream="cuda")
        del batch
        gc.collect()
        next(batches)
        self.assertEqual(said, [])
        loader.close()
        for stream in streams:
            plugin_call("stream_close", ctypes.c_void_p(stream))

    def test_on_the_host(self):
        options = {**self.options, "features": "kaldi-fbank,mel_count=20"}
        for dtype in ("float32", "float16"):
            host = next(iter(speechshard.Loader(self.path, feature_dtype=dtype, **options)))
            batch = next(
                iter(speechshard.Loader(self.path, feature_dtype=dtype, device="cuda", **options))
            )
            self.assertEqual(batch.features.tolist(), host.features.tolist())
            self.assertEqual(batch.utterance(0).tolist(), host.utterance(0).tolist())
            self.assertEqual(batch.features[0][1][2], host.features[0][1][2])
            with self.assertRaisesRegex(BufferError, "in device memory"):
                memoryview(batch.features)
            with self.assertRaisesRegex(BufferError, "not contiguous"):
                batch.features[0][::2].tolist()
            with self.assertRaises(BufferError):
                batch.features.__dlpack__(copy=True)
            with self.assertRaises(BufferError):
                batch.features.__dlpack__(dl_device=(2, 1))
            if dtype == "float32":
                copied = Taken(batch.features, dl_device=(1, 0))
                self.assertEqual(copied.tensor.device_type, 1)
                self.assertEqual(copied.read(), host.features.tolist())

    def test_views_outlive_the_loader(self):
        loader = speechshard.Loader(self.path, device="cuda", **self.options)
        batch = next(iter(loader))
        want = batch.audio.tolist()
        taken = Taken(batch.audio)
        loader.close()
        del loader, batch
        gc.collect()
        synchronize(None)
        self.assertEqual(taken.read(), want)
        self.assertGreater(used_bytes(0), 0)

    def test_no_device(self):
        for device in ("cuda:-1", "cuda:", "cuda:1x", "gpu", ""):
            with self.assertRaisesRegex(ValueError, "device must be"):
                speechshard.Loader(self.path, device=device)
        with self.assertRaisesRegex(ValueError, 'device "cuda:7" does not exist'):
            speechshard.Loader(self.path, device="cuda:7")
        with self.assertRaisesRegex(ValueError, "cuda is NULL"):
            speechshard.Loader(self.path, device="cpu", decode="device")
        os.environ["SPEECHSHARD_CUDA_PLUGIN"] = "/nonexistent/plugin.so"
        try:
            with self.assertRaisesRegex(speechshard.NotFoundError, "plug-in was not found"):
                speechshard.Loader(self.path, device="cuda")
        finally:
            os.environ["SPEECHSHARD_CUDA_PLUGIN"] = TWIN

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("there is no torch")
        if not torch.cuda.is_available():
            self.skipTest("torch has no device")
        del os.environ["SPEECHSHARD_CUDA_PLUGIN"]
        try:
            options = {**self.options, "features": "kaldi-fbank,mel_count=20"}
            host = speechshard.Loader(self.path, **options)
            there = speechshard.Loader(self.path, device="cuda", **options)
            for want, batch in zip(host, there):
                tensor = torch.from_dlpack(batch.features)
                self.assertEqual(tensor.device.type, "cuda")
                near = torch.tensor(want.features.tolist(), device="cuda")
                self.assertTrue(torch.allclose(tensor, near, atol=1e-4))
        except speechshard.Error as error:
            self.skipTest(f"no plug-in beside the package: {error}")
        finally:
            os.environ["SPEECHSHARD_CUDA_PLUGIN"] = TWIN


if __name__ == "__main__":
    support.main()
