"""Runs cases in a worker process that is restarted after a crash or a hang."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_WORKER = Path(__file__).resolve().parent / "worker.py"


class Worker:
    """One worker process, started on demand."""

    def __init__(self, scratch: Path, timeout: float) -> None:
        self._scratch = scratch
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._log = scratch / "worker.log"

    def run(self, kind: str, seed: int, folder: Path) -> str | None:
        """Runs a case. Returns its difference in words, including a crash or a hang."""
        folder.mkdir(parents=True)
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None
        # The log of a difference contains only the messages of its own case.
        os.truncate(self._log, 0)
        process.stdin.write(json.dumps([kind, seed, str(folder)]).encode() + b"\n")
        process.stdin.flush()
        answer = self._answer()
        if answer is not None:
            words: str | None = json.loads(answer)
        else:
            words = self._end()
            description = {"kind": kind, "seed": seed, "difference": words}
            (folder / "case.json").write_text(json.dumps(description, indent=1) + "\n")
        if words is not None and self._log.exists():
            shutil.copy(self._log, folder / "messages.txt")
        return words

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._end()

    def _start(self) -> None:
        answers, its_end = os.pipe()
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_WORKER), str(its_end)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[its_end],
            )
        os.close(its_end)
        self._answers = answers

    def _answer(self) -> str | None:
        """Returns the answer, or None if the worker died or takes too long."""
        until = time.monotonic() + self._timeout
        answer = b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], until - time.monotonic())
            part = os.read(self._answers, 1 << 16) if ready else b""
            if not part:
                return None
            answer += part
        return answer.decode()

    def _end(self) -> str:
        process = self._process
        assert process is not None and process.stdin is not None
        self._process = None
        is_hanging = False
        try:
            process.stdin.close()
            process.wait(timeout=2)
        except (OSError, subprocess.TimeoutExpired):
            is_hanging = True
            # The worker's fault handler writes the stacks of all threads.
            process.send_signal(signal.SIGABRT)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.close(self._answers)
        if is_hanging:
            return f"The case took longer than {self._timeout:g} seconds."
        return f"The process exited with code {process.returncode}."
