#!/usr/bin/env python3
"""Holds a real server to its OpenAPI document.

Starts `rota serve` on a folder and a port of its own, gives it an app, jobs and runs, and lets schemathesis call every
operation with what the document allows and with what it does not. Fails if an answer is a mistake of the server or is
not documented. The operations of people are called with the admin token, those of workers with the token of their app.

Usage: check.py ROTA [FOLDER]: the binary; and where the virtual environment is kept, made when it is missing.

Generation is deterministic, the number of examples and the time are bounded. Streams of events do not end by themselves,
and are left out; the tests of the API read them.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = "12"
SECONDS = {"workers": 25, "people": 60}


def environment(folder):
    """A virtual environment with the pinned packages; its `st`."""
    pins = (HERE / "requirements.txt").read_bytes()
    home = folder / ("schemathesis-" + hashlib.sha256(pins).hexdigest()[:12])
    ready = home / ".ready"
    if not ready.exists():
        print("schemathesis: making", home, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run(pip + ["-r", str(HERE / "requirements.txt")], check=True)
        ready.touch()
    return home / "bin" / "st"


class Server:
    """A `rota serve` that is stopped at the end."""

    def __init__(self, rota, folder):
        self.log = open(folder / "server.log", "w+b")
        command = [rota, "serve", "--data", str(folder / "data"), "--listen", "127.0.0.1:0",
                   "--admin-token-file", str(folder / "admin.token")]
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env=surroundings)
        for line in self.process.stdout:
            if b"listening on http://" in line:
                self.url = "http://" + line.split(b"http://")[1].decode().strip()
                break
        else:
            sys.exit("the server did not start: " + (folder / "server.log").read_text())
        self.token = (folder / "admin.token").read_text().strip()

    def call(self, method, path, body=None):
        headers = {"authorization": "Bearer " + self.token, "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def stop(self):
        """Ends it; what it wrote about panics and internal errors."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.log.seek(0)
        bad = (b"panicked", b"unexpected_answer", b"store_damaged")
        lines = [line.decode(errors="replace") for line in self.log if any(word in line for word in bad)]
        return lines if code == 0 else lines + ["it ended with %d\n" % code]


def furnish(server):
    """Something of everything, so that paths lead somewhere; the token of the app's workers."""
    server.call("PUT", "/api/v1/apps/etl", {})
    token = server.call("POST", "/api/v1/apps/etl/token", {})["token"]
    server.call("POST", "/api/v1/jobs", {"name": "tick", "app": "etl", "handler": "echo", "every": "1s"})
    server.call("POST", "/api/v1/jobs", {"name": "report", "app": "etl", "handler": "report", "cron": "0 2 * * *"})
    server.call("POST", "/api/v1/jobs/report/trigger", {})
    return token


def without_streams(document):
    """The document without what streams, and who calls which operation."""
    callers = {"workers": [], "people": []}
    for path, methods in document["paths"].items():
        for method, operation in list(methods.items()):
            if list(operation["responses"].get("200", {}).get("content", {})) == ["text/event-stream"]:
                del methods[method]
                continue
            kept = [one for one in operation.get("parameters", []) if one["name"] != "follow"]
            if kept:
                operation["parameters"] = kept
            is_worker = operation["security"] == [{"bearer": ["worker"]}]
            callers["workers" if is_worker else "people"].append(operation["operationId"])
    document["paths"] = {path: methods for path, methods in document["paths"].items() if methods}
    return document, callers


def run(st, server, token, names, seconds, folder):
    """One run of schemathesis over these operations; whether it found nothing."""
    command = [str(st), "--config-file", str(HERE / "schemathesis.toml"), "run", "openapi.json", "--url", server.url,
               "--header", "Authorization: Bearer " + token, "--checks", "all", "--phases", "examples,coverage,fuzzing",
               "--max-examples", EXAMPLES, "--max-time", str(seconds), "--workers", "1", "--request-timeout", "20",
               "--continue-on-failure", "--generation-deterministic", "--no-color"]
    for name in names:
        command += ["--include-operation-id", name]
    return subprocess.run(command, cwd=folder).returncode == 0


def main():
    rota = Path(sys.argv[1]).resolve()
    kept = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else rota.parent.parent
    st = environment(kept)
    with tempfile.TemporaryDirectory(prefix="rota-schemathesis-") as folder:
        folder = Path(folder)
        server = Server(rota, folder)
        try:
            worker = furnish(server)
            with urllib.request.urlopen(server.url + "/api/openapi.json", timeout=30) as answer:
                document, callers = without_streams(json.load(answer))
            (folder / "openapi.json").write_text(json.dumps(document))
            # Workers first: people make new tokens for the app, and only the newest two are valid.
            is_well = run(st, server, worker, callers["workers"], SECONDS["workers"], folder)
            is_well &= run(st, server, server.token, callers["people"], SECONDS["people"], folder)
        finally:
            complaints = server.stop()
        for line in complaints:
            print("server:", line, end="")
        sys.exit(0 if is_well and not complaints else 1)


main()
