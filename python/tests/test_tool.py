"""The command-line tool in the package behaves like the program."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cntk_reader

from tests.digits import DIGITS

TOOL = [sys.executable, "-m", "cntk_reader"]


def run(*arguments, **options):
    """Runs the tool to its end, with its output as text."""
    return subprocess.run([*TOOL, *arguments], capture_output=True, timeout=60, check=False, **options)


class Tool(unittest.TestCase):
    def test_results_go_to_standard_output(self):
        shown = run("info", str(DIGITS), text=True)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn("1,437 sequences", shown.stdout)

    def test_version(self):
        self.assertEqual(run("--version").stdout.decode(), f"cntk-reader {cntk_reader.__version__}\n")

    def test_exit_codes(self):
        with tempfile.TemporaryDirectory() as folder:
            wrong = Path(folder, "wrong.ctf")
            wrong.write_text("|x 1 2\n|x 1 a\n")
            for code, arguments in [(1, ["validate", str(wrong)]), (2, ["unknown"]), (3, ["info", f"{folder}/none"])]:
                with self.subTest(code=code):
                    self.assertEqual(run(*arguments).returncode, code)

    def test_usage_names_the_tool(self):
        for arguments in (["--help"], ["info"]):
            shown = run(*arguments)
            self.assertIn(b"Usage: cntk-reader ", shown.stdout + shown.stderr)

    def test_names_need_not_be_unicode(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.fsencode(folder) + b"/\xff.ctf"
            with open(path, "wb") as file:
                file.write(DIGITS.read_bytes())
            shown = run("info", path)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn(b"1,437 sequences", shown.stdout)

    def test_early_closed_pipe_is_not_an_error(self):
        head = [*TOOL, "head", str(DIGITS), "-n", "1437"]
        with subprocess.Popen(head, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            self.assertIn(b'"number":0', child.stdout.readline())
            child.stdout.close()
            self.assertEqual(child.stderr.read(), b"")
            self.assertEqual(child.wait(60), 0)

    def test_ctrl_c_kills_by_signal(self):
        # Programs that a shell starts in the background ignore Ctrl-C.
        program = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from cntk_reader._tool import main; sys.exit(main())"
        )
        # The output exceeds the capacity of a pipe, so the tool waits for its reader.
        command = [sys.executable, "-c", program, "head", str(DIGITS), "-n", "1437"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            self.assertIn(b'"number":0', child.stdout.readline())
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(60), -signal.SIGINT)
            self.assertEqual(child.stderr.read(), b"")

    def test_closed_standard_streams_are_not_reused(self):
        program = (
            "import os, sys; from cntk_reader._tool import main; sys.argv[1:] = ['--version']; code = main()\n"
            "for stream in range(3): code |= not os.path.samefile(f'/proc/self/fd/{stream}', os.devnull)\n"
            "sys.exit(code)"
        )
        command = f'{shlex.quote(sys.executable)} -c "$0" <&- >&- 2>&-'
        self.assertEqual(subprocess.run(["sh", "-c", command, program], timeout=60, check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
