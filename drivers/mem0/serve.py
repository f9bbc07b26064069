"""The HTTP side of the mem0 sidecar: what the kernel's sidecar driver speaks.

    POST /plan    {query, candidates:[{ref,content}], budget, k} -> {refs:[{ref,score}]}
    GET  /healthz -> {ok:true, mode:"…"}

Prints its URL as the one line on standard output when it is ready. Nothing here logs a
query or a content. Ranking lives in engine.py.
"""

import argparse
import hashlib
import json
import logging
import os
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_CANDIDATES = 200
MAX_BODY = 32 * 1024 * 1024
# How long an answer is kept for a retry that comes after the computation has ended.
KEPT_SECONDS = 10.0
# After two attempts the kernel has given up: a plan that only starts then is not run.
GIVEN_UP_SECONDS = 3.5
# A connection on which nothing arrives for this long is closed.
IDLE_SECONDS = 60.0


def refuse_connections(event, _arguments):
    """Keeps this process from reaching out: it answers, and asks nobody."""
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise PermissionError(f"{event}: the sidecar opens no connections")


class BadRequest(Exception):
    """What the caller sent breaks the contract."""


class TooLate(Exception):
    """Nobody waits for this plan any more."""


class Plans:
    """Runs plans, and joins a retry to the computation that it repeats.

    A retry is the same request id with the same bytes. The id alone would let one
    caller fetch what another one's plan gave.
    """

    def __init__(self, rank, workers):
        self._rank = rank
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="plan")
        self._lock = threading.Lock()
        self._running = {}

    def answer(self, request_id, body):
        """The refs for `body`, computed once for each request id."""
        now = time.monotonic()
        if not request_id:
            return self._pool.submit(self._compute, body, now).result()
        key = (request_id, hashlib.sha256(body).digest())
        with self._lock:
            self._forget_old(now)
            future, _ = self._running.get(key, (None, now))
            if future is None or (future.done() and future.exception()):
                future = self._pool.submit(self._compute, body, now)
                self._running[key] = (future, now)
        return future.result()

    def _forget_old(self, now):
        oldest = now - KEPT_SECONDS
        for key, (future, began) in list(self._running.items()):
            if future.done() and began < oldest:
                del self._running[key]

    def _compute(self, body, asked):
        if time.monotonic() - asked > GIVEN_UP_SECONDS:
            raise TooLate
        query, candidates, k = read_plan(body)
        return self._rank(query, candidates, k)


def read_plan(body):
    """Query, candidates and k of a request, checked."""
    try:
        request = json.loads(body)
        query, candidates, k = request["query"], request["candidates"], request["k"]
        texts = [query, *(it[field] for it in candidates for field in ("ref", "content"))]
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"not a plan: {type(error).__name__}") from error
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest("query, ref and content must be strings")
    if not isinstance(k, int) or isinstance(k, bool) or k < 0:
        raise BadRequest("k must be a number from 0")
    if len(candidates) > MAX_CANDIDATES:
        raise BadRequest(f"at most {MAX_CANDIDATES} candidates")
    if len({it["ref"] for it in candidates}) < len(candidates):
        raise BadRequest("a ref is sent twice")
    return query, candidates, k


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body go out in two writes; without this the second waits for the first
    # one's acknowledgement.
    disable_nagle_algorithm = True
    timeout = IDLE_SECONDS
    server_version = "halofy-mem0"
    sys_version = ""

    def do_GET(self):
        if self.path != "/healthz":
            return self._send(404, {"error": "no such path"})
        self._send(200, {"ok": True, "mode": self.server.mode})

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if self.path != "/plan" or not length.isdigit() or int(length) > MAX_BODY:
            # What follows on the connection may be an unread body.
            self.close_connection = True
            known = self.path == "/plan"
            return self._send(413 if known else 404, {"error": "no such path, or too large"})
        body = self.rfile.read(int(length))
        try:
            refs = self.server.plans.answer(self.headers.get("x-halomem-request-id"), body)
        except BadRequest as error:
            return self._send(400, {"error": str(error)})
        except Exception as error:
            # Only the kind: a message may quote what was sent.
            logging.error("a plan failed: %s", type(error).__name__)
            return self._send(500, {"error": "the engine failed"})
        self._send(200, {"refs": refs})

    def _send(self, status, answer):
        body = json.dumps(answer, allow_nan=False).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            # The kernel gave up on this attempt; its retry gets the answer.
            self.close_connection = True

    def log_message(self, *_arguments):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, plans, mode):
        super().__init__(address, Handler)
        self.plans = plans
        self.mode = mode


def main():
    parser = argparse.ArgumentParser(description="mem0 as a sidecar of the Halofy kernel")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8377, help="0 takes a free one")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()

    # The folder that this stands in is source.
    sys.dont_write_bytecode = True
    warnings.filterwarnings("ignore", message="Payload indexes have no effect")
    import engine

    # After the import, which sets levels of its own. mem0 logs contents below this one.
    logging.getLogger().setLevel(logging.ERROR)
    sys.addaudithook(refuse_connections)
    plans = Plans(engine.plan, arguments.workers)
    with Server((arguments.host, arguments.port), plans, engine.MODE) as server:
        host, port = server.server_address[:2]
        print(f"http://{host}:{port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
