import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from judges.lexical.__main__ import main


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "judges.lexical", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_stops_on_a_signal(number):
    with process("--port", "0", "--latency-s", "0.01") as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/v1", line)
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0]))):
            pass
        running.send_signal(number)
        rest, errors = running.communicate(timeout=60)
    assert (running.returncode, rest, errors) == (0, "", "")


def test_a_port_in_use_is_one_sentence(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"Cannot listen on 127.0.0.1 port {port} (")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--error-rate", "2"], "error_rate is 2.0"),
        (["--malformed", "odd"], "invalid choice"),
        (["--port", "70000"], "invalid"),
        (["--times", "x"], "invalid int value"),
    ],
)
def test_wrong_arguments_are_refused(arguments, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
