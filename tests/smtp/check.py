#!/usr/bin/env python3
"""Hands mails to a real SMTP server, aiosmtpd, in every way in which alerts can, and in those in which they must not.

Usage: check.py MAIL [FOLDER]: the built example `mail` of rota-net; and where the virtual environment is kept, made when
it is missing. The certificate is made anew each time.
"""

import email
import email.policy
import hashlib
import os
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
USER, PASSWORD = "rota", "pass word: 密码"


def environment(folder):
    """A virtual environment with the pinned packages; its Python."""
    pins = (HERE / "requirements.txt").read_bytes()
    home = folder / ("smtp-" + hashlib.sha256(pins).hexdigest()[:12])
    ready = home / ".ready"
    if not ready.exists():
        print("smtp: making", home, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run(pip + ["-r", str(HERE / "requirements.txt")], check=True)
        ready.touch()
    return home / "bin" / "python"


def certificate(folder, name):
    """A self-signed certificate for localhost, its key, and the certificate as DER."""
    pem, key, der = (folder / (name + end) for end in (".pem", ".key", ".der"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(key), "-out", str(pem)],
                   check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["openssl", "x509", "-in", str(pem), "-outform", "DER", "-out", str(der)], check=True)
    return pem, key, der


class Cases:
    """Servers, and what came of one mail to each."""

    def __init__(self, mail, folder):
        self.mail, self.failed = mail, []
        pem, key, self.der = certificate(folder, "ours")
        self.stranger = certificate(folder, "another")[2]
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pem, key)

    def check(self, what, encryption, expected, login=(), root=None, **settings):
        """One server with these settings, one mail; what the client says, and what the server got."""
        from aiosmtpd.controller import Controller
        from aiosmtpd.smtp import AuthResult, LoginPassword

        got, logins = [], []

        class Listening(Controller):
            """Listens on a port that the system chooses; its self-test would call port 0."""

            def _trigger_server(self):
                self.port = self.server.sockets[0].getsockname()[1]
                super()._trigger_server()

        class Handler:
            async def handle_DATA(self, server, session, envelope):
                got.append((envelope.mail_from, envelope.rcpt_tos, envelope.content))
                return "250 kept"

            async def handle_RCPT(self, server, session, envelope, address, options):
                if address == settings.get("unknown"):
                    return "550 no such user here"
                envelope.rcpt_tos.append(address)
                return "250 well"

        def authenticate(server, session, envelope, mechanism, data):
            logins.append((mechanism, session.ssl is not None))
            is_right = isinstance(data, LoginPassword) and (data.login, data.password) == (
                USER.encode(), PASSWORD.encode())
            return AuthResult(success=is_right, handled=False)

        server = {"tls_context": self.context} if settings.get("starttls") else {}
        if settings.get("auth"):
            server |= {"authenticator": authenticate, "auth_required": True,
                       "auth_require_tls": settings.get("auth_needs_tls", True),
                       "auth_exclude_mechanism": settings.get("without", [])}
        context = {"ssl_context": self.context} if settings.get("tls") else {}
        controller = Listening(Handler(), hostname="127.0.0.1", port=0, **context, **server)
        controller.start()
        try:
            command = [self.mail, "localhost:%d" % controller.port, encryption, str(root or self.der), *login]
            said = subprocess.run(command, capture_output=True, text=True, timeout=60)
        finally:
            controller.stop()
        text = said.stdout.strip()
        is_right = expected in text and (said.returncode == 0) == (expected == "delivered")
        is_right &= bool(got) == (expected == "delivered") and PASSWORD not in text + said.stderr
        # A password goes out in plain text only where the rule says so.
        is_right &= all(is_safe or encryption != "starttls" for _, is_safe in logins)
        if expected == "delivered":
            is_right &= self.is_whole(*got[0]) and bool(logins) == bool(login)
        print("%-4s %s: %s" % ("ok" if is_right else "FAIL", what, text or said.stderr), flush=True)
        if not is_right:
            self.failed.append(what)
        return logins

    def is_whole(self, sender, recipients, content):
        """Whether the mail is what was handed in."""
        mail = email.message_from_bytes(content, policy=email.policy.default)
        return (sender == "rota@shop.example" and recipients == ["ops@shop.example", "ann@shop.example"]
                and mail["subject"] == "[Rota] 任务 settle 执行失败" and mail["message-id"] == "<rota.1.7@shop.example>"
                and mail.get_content().replace("\r\n", "\n").rstrip("\n") == "一行\n.\n..two dots\nthe end")


def check_all(mail, folder):
    cases, login = Cases(mail, folder), (USER, PASSWORD)
    cases.check("plain, without a login", "none", "delivered")
    cases.check("STARTTLS, then a login", "starttls", "delivered", login, starttls=True, auth=True)
    cases.check("the same by LOGIN", "starttls", "delivered", login, starttls=True, auth=True, without=["PLAIN"])
    cases.check("TLS from the start", "tls", "delivered", login, tls=True, auth=True, auth_needs_tls=False)
    cases.check("STARTTLS without a login", "starttls", "delivered", starttls=True)
    wrong = (USER, "another password")
    cases.check("a wrong password", "starttls", "refused the login: 535", wrong, starttls=True, auth=True)
    cases.check("a login that is required", "starttls", "refused the sender: 530", starttls=True, auth=True)
    tried = cases.check("no STARTTLS offered", "starttls", "does not offer STARTTLS", login, auth=True,
                        auth_needs_tls=False)
    if tried:
        cases.failed.append("a password was sent in plain text")
    cases.check("a login that the server does not know", "starttls", "refused the login: 535", login, starttls=True)
    cases.check("no way of login in common", "starttls", "offers no login by PLAIN or LOGIN", login, starttls=True,
                auth=True, without=["PLAIN", "LOGIN"])
    cases.check("a certificate of a stranger", "starttls", "localhost", login, cases.stranger, starttls=True, auth=True)
    cases.check("TLS to a server that speaks none", "tls", "localhost")
    cases.check("a recipient that is not known", "none", "refused a recipient: 550", unknown="ann@shop.example")
    print("smtp: %d failed" % len(cases.failed), *cases.failed, sep="\n")
    return 1 if cases.failed else 0


def main():
    mail = str(Path(sys.argv[1]).resolve())
    kept = Path(sys.argv[2] if len(sys.argv) > 2 else Path(mail).parents[2]).resolve()
    python = environment(kept)
    if os.environ.get("VIRTUAL_ENV_OF_SMTP") != str(python):
        surroundings = os.environ | {"VIRTUAL_ENV_OF_SMTP": str(python)}
        sys.exit(subprocess.run([str(python), __file__, *sys.argv[1:]], env=surroundings).returncode)
    with tempfile.TemporaryDirectory(prefix="rota-smtp-") as folder:
        sys.exit(check_all(mail, Path(folder)))


main()
