"""link.py: the cost of a TCP message between two processes of this machine: the median of half a
round trip of 64 bytes, and the rate at which 4 MiB arrive. It is printed in the form that
`--simulate link=` takes."""

import multiprocessing
import socket
import statistics
import time

ROUND_TRIPS, SMALL = 2000, 64
LARGE, LARGE_TIMES = 4 << 20, 40


def receive(connection, size):
    left, buffer = size, bytearray(1 << 20)
    while left > 0:
        got = connection.recv_into(buffer, min(left, len(buffer)))
        if got == 0:
            raise OSError("the other end has gone")
        left -= got


def answer(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUND_TRIPS):
            receive(connection, SMALL)
            connection.sendall(bytes(SMALL))
        for _ in range(LARGE_TIMES):
            receive(connection, LARGE)
            connection.sendall(b"!")


def times(connection, count, size, back):
    seconds = []
    message = bytes(size)
    for _ in range(count):
        begin = time.perf_counter()
        connection.sendall(message)
        receive(connection, back)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def measure():
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = multiprocessing.get_context("spawn").Process(target=answer, args=(server.getsockname()[1],))
        other.start()
        server.settimeout(30)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(30)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            latency_s = times(connection, ROUND_TRIPS, SMALL, SMALL) / 2
            bytes_per_s = LARGE / max(1e-9, times(connection, LARGE_TIMES, LARGE, 1) - 2 * latency_s)
        other.join()
    latency_us, mbit = max(1, round(1e6 * latency_s)), max(1, round(8e-6 * bytes_per_s))
    return {"link": f"{latency_us}us+{mbit}Mbit", "latency_us": 1e6 * latency_s, "bytes_per_s": bytes_per_s}
