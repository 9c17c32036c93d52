"""A Rota worker without an SDK. ROTA_SERVER=http://… ROTA_TOKEN=rota_w_… python3 worker.py APP [PORT]"""
import json, os, secrets, sys, threading, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SERVER, TOKEN = os.environ["ROTA_SERVER"], os.environ["ROTA_TOKEN"]
SECRET, ME = secrets.token_hex(32), time.time_ns() // 1000  # what calls to us carry; which start of this worker we are
HANDLERS = {"echo": lambda param: param, "shout": lambda param: param.upper()}  # a name, and what it does
known, unacknowledged, refused, now, lock = {}, {}, set(), {"beat": 1, "epoch": 0}, threading.RLock()

def call(method, path, body):
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    request = urllib.request.Request(f"{SERVER}/api/v1/workers{path}", json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.loads(response.read() or "null")

def work(task):
    try: outcome, message = "success", HANDLERS[task["handler"]](task["param"])
    except Exception as error: outcome, message = "failed", repr(error)
    result = {key: task[key] for key in ("attempt", "run", "shard", "no")} | {"outcome": outcome, "message": message}
    with lock: known[task["attempt"]] = unacknowledged[task["attempt"]] = result
    wake.set()

class Inbound(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # the server keeps its connections
    def do_GET(self): self.answer(200, {"name": NAME, "incarnation": ME})
    def do_POST(self):
        if self.headers["authorization"] != f"Bearer {SECRET}": return self.answer(401, {})
        task = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with lock:  # one at a time, so that answers and beats agree
            self.answer(*(execute if self.path.endswith("/execute") else enquire)(task))
    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_): pass

def execute(task):
    why = ("foreign_incarnation" if task["incarnation"] != ME else "stale_epoch" if task["epoch"] < now["epoch"]
           else "cancelled" if task["attempt"] in refused else "unknown_handler" if task["handler"] not in HANDLERS else None)
    if why: return 409, {"refused": why}
    now["epoch"] = task["epoch"]
    if known.setdefault(task["attempt"], task) is task: threading.Thread(target=work, args=[task], daemon=True).start()
    return 202, {"next_beat": now["beat"]}

def enquire(task):  # probe and cancel; a thread cannot be stopped, so a cancelled one runs to its end
    if task["incarnation"] != ME: return 200, {"status": "foreign_incarnation"}
    found = known.get(task["attempt"])
    if found is None: refused.add(task["attempt"]); return 200, {"status": "never_seen"}
    return 200, {"status": "finished", "result": found} if "outcome" in found else {"status": "running", "next_beat": now["beat"]}

server, wake, APP = ThreadingHTTPServer(("127.0.0.1", int((sys.argv + ["0"])[2])), Inbound), threading.Event(), sys.argv[1]
NAME, URL = f"{APP}-python", os.environ.get("ROTA_ADVERTISE_URL", f"http://127.0.0.1:{server.server_port}")
threading.Thread(target=server.serve_forever, daemon=True).start()
worker, beat_at = None, 0.0
while True:
    try:
        if worker is None:
            worker = call("POST", "", {"app": APP, "name": NAME, "incarnation": ME, "url": URL,
                                       "callback_secret": SECRET, "handlers": list(HANDLERS)})
            print("registered", worker, flush=True)
        with lock: results = list(unacknowledged.values())[:1000]
        if results:
            answer = call("POST", f"/{worker['worker']}/results", {"incarnation": ME, "results": results})
            for attempt in answer["acknowledged"]: unacknowledged.pop(attempt, None)
        if time.monotonic() >= beat_at:
            with lock:
                running = [attempt for attempt, task in known.items() if "outcome" not in task]
                beat = {"incarnation": ME, "no": now["beat"], "running": running, "finished": list(unacknowledged)}
                now["beat"], beat_at = now["beat"] + 1, time.monotonic() + worker["beat_ms"] / 1000
            call("POST", f"/{worker['worker']}/beat", beat)
    except urllib.error.HTTPError as error:  # every refusal says what is wrong, and what would be right
        print(error.code, error.read().decode(), file=sys.stderr, flush=True)
        if error.code == 404: worker = None
        time.sleep(1)
    except OSError as error: print(error, file=sys.stderr, flush=True); time.sleep(1)
    wake.wait(0.2 if unacknowledged else max(0.0, beat_at - time.monotonic()))
    wake.clear()
