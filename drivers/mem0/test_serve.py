"""What serve.py promises apart from mem0: needs no package but python itself.

    python3 -m unittest discover drivers/mem0
"""

import json
import socket
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import serve


def body(query="q", refs=("a",), k=5):
    candidates = [{"ref": ref, "content": f"content of {ref}"} for ref in refs]
    return json.dumps({"query": query, "candidates": candidates, "budget": 1, "k": k}).encode()


class Engine:
    """Counts its plans, and holds each until it is let go."""

    def __init__(self, failures=0):
        self.go = threading.Event()
        self.plans = 0
        self.failures = failures

    def __call__(self, query, candidates, k):
        self.plans += 1
        mine = self.plans
        self.go.wait(5)
        if mine <= self.failures:
            raise RuntimeError("down")
        return [{"ref": it["ref"], "score": mine} for it in candidates[:k]]


class PlansTest(unittest.TestCase):
    def asked(self, engine, calls):
        """The answers to `calls`, all made while none is computed."""
        plans = serve.Plans(engine, workers=4)
        with ThreadPoolExecutor(len(calls)) as callers:
            answers = [callers.submit(plans.answer, *call) for call in calls]
            time.sleep(0.1)
            engine.go.set()
            return [answer.result() for answer in answers]

    def test_a_retry_joins_the_running_computation(self):
        engine = Engine()
        first, second = self.asked(engine, [("id", body()), ("id", body())])
        self.assertEqual(first, second)
        self.assertEqual(engine.plans, 1)

    def test_a_late_retry_gets_the_kept_answer(self):
        engine = Engine()
        engine.go.set()
        plans = serve.Plans(engine, workers=1)
        self.assertEqual(plans.answer("id", body()), plans.answer("id", body()))
        self.assertEqual(engine.plans, 1)

    def test_another_id_or_another_body_is_another_plan(self):
        engine = Engine()
        calls = [("id", body()), ("other", body()), ("id", body("p")), (None, body())]
        self.asked(engine, calls)
        self.assertEqual(engine.plans, 4)

    def test_a_retry_of_a_failed_plan_computes_again(self):
        engine = Engine(failures=1)
        engine.go.set()
        plans = serve.Plans(engine, workers=1)
        with self.assertRaises(RuntimeError):
            plans.answer("id", body())
        self.assertEqual(plans.answer("id", body()), [{"ref": "a", "score": 2}])

    def test_what_nobody_waits_for_is_not_run(self):
        engine = Engine()
        engine.go.set()
        plans = serve.Plans(engine, workers=1)
        with self.assertRaises(serve.TooLate):
            plans._compute(body(), time.monotonic() - serve.GIVEN_UP_SECONDS - 1)
        self.assertEqual(engine.plans, 0)


class ReadPlanTest(unittest.TestCase):
    def test_a_plan_is_read(self):
        query, candidates, k = serve.read_plan(body("q", ("a", "b"), 3))
        self.assertEqual((query, [it["ref"] for it in candidates], k), ("q", ["a", "b"], 3))

    def test_what_breaks_the_contract_is_refused(self):
        many = tuple(str(at) for at in range(serve.MAX_CANDIDATES + 1))
        bad = [b"", b"[]", b"{}", b"\xff", body(7), body(k="5"), body(k=-1), body(k=True)]
        for bytes_ in [*bad, body(refs=("a", "a")), body(refs=many)]:
            with self.subTest(bytes_[:40]), self.assertRaises(serve.BadRequest):
                serve.read_plan(bytes_)


class ConnectionsTest(unittest.TestCase):
    def test_a_serving_process_opens_no_connection(self):
        code = (
            "import socket, sys, serve\n"
            "address = ('127.0.0.1', int(sys.argv[1]))\n"
            "socket.create_connection(address).close()\n"
            "sys.addaudithook(serve.refuse_connections)\n"
            "try: socket.create_connection(address)\n"
            "except PermissionError: print('refused')\n"
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
            done = subprocess.run(
                [sys.executable, "-B", "-c", code, port],
                cwd=Path(__file__).parent,
                capture_output=True,
                text=True,
                timeout=30,
            )
        self.assertEqual((done.stdout, done.stderr), ("refused\n", ""))


if __name__ == "__main__":
    unittest.main()
