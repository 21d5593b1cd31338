"""An S3-compatible server for tests: moto in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_START_S = 50.0


class S3:
    """A server on a free port of this machine, from entry to exit."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._log = folder / "s3.log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def environment(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def __enter__(self) -> S3:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise RuntimeError(self._log.read_text()) from None
                time.sleep(0.05)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def bucket(self, name: str, versioning: str | None = None) -> str:
        """Make a bucket; `versioning`: Enabled or Suspended."""
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket=name)
        if versioning:
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": versioning})
        client.close()
        return f"s3://{name}"


def lacking() -> str | None:
    """What is not installed here."""
    from importlib.util import find_spec

    return None if find_spec("moto") and find_spec("flask") else "moto is not installed: pip install 'glassbox[test]'"
