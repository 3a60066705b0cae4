"""Presses Tab in bash, zsh and fish on a pseudo-terminal, and compares the screen.

Usage: shells.py TOOL SHELL. Needs pexpect and pyte. Prints the number of cases. The screen is compared, not the output, because
shells also print what they take back.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

import pexpect
import pyte

ROWS, COLUMNS = 40, 100
SECONDS = 20  # until a screen must have come

# Keys to type; words that the screen must show then; words that it must not show.
CASES = [
    ("cntk-reader vali\t", ["cntk-reader validate"], []),
    ("cntk-reader \t\t", ["info", "validate", "convert", "completions"], ["data.ctf"]),
    ("cntk-reader info da\t", ["cntk-reader info data.ctf"], []),
    ("cntk-reader convert --one\t", ["--one-hot"], []),
    ("cntk-reader convert --chu\t", ["--chunk-size"], []),
    ("cntk-reader head --fo\t", ["--format"], []),
    ("cntk-reader info --fu\t", ["--full"], []),
    ("cntk-reader info --format=nd\t", ["--format=ndjson"], []),
    ("cntk-reader head data.ctf --format nd\t", ["--format ndjson"], []),
    ("cntk-reader convert --to mlf da\t", ["--to mlf data.ctf"], []),
    ("cntk-reader convert --to cb\t", ["--to cbf"], []),
    ("cntk-reader bench --stages ra\t", ["--stages randomize"], []),
    ("cntk-reader completions fi\t", ["completions fish"], []),
    ("cntk-reader help comp\t", ["help completions"], []),
]


class Terminal:
    """A shell on a pseudo-terminal of 100 columns."""

    def __init__(self, command, environment, folder):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.child = pexpect.spawn(
            command[0], command[1:], env=environment, cwd=folder, dimensions=(ROWS, COLUMNS), timeout=SECONDS
        )
        # fish asks the terminal for its place and its kind, and waits for the answers.
        self.screen.write_process_input = self.child.send

    def read(self, seconds):
        """Feeds everything that comes within this time to the screen."""
        with contextlib.suppress(pexpect.TIMEOUT):
            self.stream.feed(self.child.read_nonblocking(1 << 16, timeout=seconds))

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display).strip()

    def wait_for(self, *words):
        """Waits until the screen shows all words. Returns whether it does."""
        end = time.monotonic() + SECONDS
        while not all(word in self.text() for word in words):
            if time.monotonic() > end or not self.child.isalive():
                return False
            self.read(0.1)
        return True

    def type(self, keys):
        """Types keys, a Tab at a time: a shell must have seen one before it gets the next."""
        for number, part in enumerate(keys.split("\t")):
            if number:
                self.child.send("\t")
                self.read(0.3)
            self.child.send(part)
            self.read(0.1)

    def close(self):
        self.child.close(force=True)


def prepare(shell, tool, home):
    """Installs the completions for the shell. Returns the command that starts it, and the environment."""
    binary = os.path.join(home, "bin")
    os.makedirs(binary)
    os.symlink(os.path.abspath(tool), os.path.join(binary, "cntk-reader"))
    environment = {
        "HOME": home,
        "PATH": f"{binary}:/usr/local/bin:/usr/bin:/bin",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": os.path.join(home, ".config"),
        "XDG_DATA_HOME": os.path.join(home, ".local/share"),
        "XDG_RUNTIME_DIR": home,
    }
    script = subprocess.run([tool, "completions", shell], check=True, capture_output=True, text=True).stdout

    def write(path, text):
        path = os.path.join(home, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    if shell == "bash":
        start = write("rc", f"{script}\nPS1='ready> '\nbind 'set show-all-if-ambiguous on'\n")
        return ["bash", "--noprofile", "--rcfile", start, "-i"], environment
    if shell == "zsh":
        write("functions/_cntk-reader", script)
        write(".zshrc", "fpath=(~/functions $fpath)\nautoload -U compinit && compinit -u -D\nPS1='ready> '\n")
        return ["zsh", "-i"], environment
    write(".config/fish/completions/cntk-reader.fish", script)
    write(".config/fish/config.fish", "function fish_prompt; echo 'ready> '; end\nset fish_greeting\n")
    return ["fish", "--interactive"], environment


def check(shell, tool, home):
    """Returns the number of cases, and texts about those that failed."""
    command, environment = prepare(shell, tool, home)
    data = os.path.join(home, "work")
    os.makedirs(data)
    with open(os.path.join(data, "data.ctf"), "w") as file:
        file.write("|x 1\n")
    failures = []
    for keys, wanted, unwanted in CASES:
        terminal = Terminal(command, environment, data)
        try:
            started = terminal.wait_for("ready>")
            # The first screen of a shell may still change.
            terminal.read(0.2)
            terminal.type(keys)
            shown = started and terminal.wait_for(*wanted)
            if not shown or any(word in terminal.text() for word in unwanted):
                failures.append(f"{shell}: {keys!r} must show {wanted}, not {unwanted}:\n{terminal.text()}\n")
        finally:
            terminal.close()
    return len(CASES), failures


def main():
    tool, shell = sys.argv[1:]
    home = tempfile.mkdtemp()
    try:
        count, failures = check(shell, tool, home)
    finally:
        # fish may still write its history.
        shutil.rmtree(home, ignore_errors=True)
    if failures:
        sys.exit("\n".join(failures))
    print(count)


if __name__ == "__main__":
    main()
