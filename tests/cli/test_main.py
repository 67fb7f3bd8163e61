"""SIGTERM and SIGHUP: all of Poise answers them as Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os, signal, sys, time
from poise.cli.main import termination_as_ctrl_c

def told():
    return [signal.getsignal(number) == signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGHUP)]

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job may ignore
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup this
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
with termination_as_ctrl_c():
    print(told(), signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)
    if sys.argv[1] == "forked":
        ready, say = os.pipe()
        if (child := os.fork()) == 0:
            os.write(say, b"x")
            while True:
                time.sleep(0.01)
        os.read(ready, 1)  # or the signal would be lost with what a fork clears
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if sys.argv[1] == "heard":
        try:
            os.kill(os.getpid(), signal.SIGHUP)
        except KeyboardInterrupt:
            print("as Ctrl-C")
print(told())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no such signals here")
@pytest.mark.parametrize(
    ("how", "heard"),
    [
        ("heard", ["[False, False] False", "as Ctrl-C", "[True, True]"]),
        ("ignored", ["[False, False] True", "[True, False]"]),
        ("forked", ["[False, False] False", str(-signal.SIGTERM), "[True, True]"]),
        ("several", ["[True, True] False", "[True, True]"]),
    ],
)
def test_they_count_as_ctrl_c(how: str, heard: list[str]) -> None:
    surroundings = {**os.environ, "PYTHONUNBUFFERED": "1"} | ({"RANK": "1"} if how == "several" else {})
    command = [sys.executable, "-c", CODE, how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=surroundings)
    assert (ended.stdout.splitlines(), ended.stderr) == (heard, "")


COMMAND = """
import os, signal, sys
from poise.cli.main import main

number = signal.Signals[sys.argv.pop()]
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores

class Ending:
    def find_spec(self, name, path=None, target=None):
        if name == "poise.records.schema":  # which the command imports when it has begun
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Ending())
main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("command", ["table", "report"])
def test_every_command_answers_them(command: str, name: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", COMMAND, command, str(tmp_path), "--json", name]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    sentence = "poise: interrupted. Finished work is saved; run the same command to continue.\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", sentence)
    assert list(tmp_path.iterdir()) == []
