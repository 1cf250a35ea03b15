"""Servers that speak bytes, and a client to ask them."""

import asyncio
import ipaddress
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from horae.core.egress import allow_ranges
from horae.executors.client import locate

LOOPBACK = allow_ranges("127.0.0.0/8,::1")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Talker:
    """Answers each request with the next of its pieces of bytes; an empty one hangs up, None says nothing."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.heads = []
        self.bodies = []
        self.connections = 0
        self.gone = 0

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                self.bodies.append(await reader.readexactly(int(length[0].split(b":")[1])) if length else b"")
                answer = self.answers.pop(0) if self.answers else OK
                if answer is None:
                    await reader.read()
                    break
                if not answer:
                    break
                writer.write(answer)
                await writer.drain()
                if b"Connection: close" in answer or (b"Content-Length" not in answer and b"chunked" not in answer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.gone += 1
            writer.close()


@asynccontextmanager
async def talking(*answers, host="127.0.0.1", context=None):
    talker = Talker(*answers)
    server = await asyncio.start_server(talker.serve, host, 0, ssl=context)
    talker.port = server.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    talker.url = f"{'https' if context else 'http'}://{shown}:{talker.port}/"
    try:
        yield talker
    finally:
        server.close()


def ask(client, url, *, method="GET", body=None, seconds=20.0, most=1000, headers=None):
    return client.request(method, locate(url), headers or {}, body, seconds, most)


def certificate_for(tmp_path, address="127.0.0.1"):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "horae test")])
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=36500))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, lock = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path / "all.pem"
    path.write_bytes(key.private_bytes(pem, form, lock) + made.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return path, context
