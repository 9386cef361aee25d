"""Draw a session of `pelton chat` with the built-in model as docs/chat.svg.

    cargo build --release && python docs/chat.py target/release/pelton

Types the lines below in a pseudo-terminal, waits for each answer, and draws the last screen.
Needs Linux or macOS and nothing but Python.
"""

import fcntl
import html
import os
import pathlib
import pty
import re
import select
import struct
import sys
import termios
import time

COLUMNS, ROWS = 84, 60
LINES = [
    "What is 7 plus 5?",
    "Tell me a short story.",
    "And what is 12 plus 3?",
    "/undo",
    "Name three animals.",
    "/stats",
]
SEQUENCE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b.|([\r\n\b])|([^\x1b\r\n\b]+)")
WIDTH, HEIGHT, MARGIN = 8.4, 18, 14


class Screen:
    """A terminal of the few sequences that Pelton and its editor write."""

    def __init__(self):
        self.rows = [[(" ", "")] * COLUMNS]
        self.row = self.column = 0
        self.style = ""

    def feed(self, text):
        for parameters, name, control, plain in SEQUENCE.findall(text):
            number = int(parameters) if parameters.isdigit() else 0
            if name == "m":
                codes = {"1": "b", "2": "d", "3": "i", "32": "g", "36": "c"}
                for code in parameters.split(";"):
                    self.style = self.style + codes.get(code, "") if code not in ("", "0") else ""
            elif name == "K":
                self.rows[self.row][self.column :] = [(" ", "")] * (COLUMNS - self.column)
            elif name == "J":
                del self.rows[self.row + 1 :]
                self.rows[self.row][self.column :] = [(" ", "")] * (COLUMNS - self.column)
            elif name == "C":
                self.column += max(1, number)
            elif name == "D":
                self.column = max(0, self.column - max(1, number))
            elif name == "A":
                self.row = max(0, self.row - max(1, number))
            elif control == "\r":
                self.column = 0
            elif control == "\b":
                self.column = max(0, self.column - 1)
            elif control == "\n":
                self.down()
            for character in plain:
                if self.column >= COLUMNS:
                    self.column = 0
                    self.down()
                self.rows[self.row][self.column] = (character, self.style)
                self.column += 1

    def down(self):
        self.row += 1
        while self.row >= len(self.rows):
            self.rows.append([(" ", "")] * COLUMNS)

    def svg(self):
        rows = self.rows
        while rows and all(character == " " for character, _ in rows[-1]):
            rows = rows[:-1]
        width = COLUMNS * WIDTH + 2 * MARGIN
        height = len(rows) * HEIGHT + 2 * MARGIN
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
            f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="A session of pelton chat">',
            "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d8dee9;"
            "white-space:pre}.b{font-weight:bold}.d{fill:#7b8494}.i{font-style:italic}"
            ".g{fill:#a3be8c}.c{fill:#88c0d0}</style>",
            f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#20242c"/>',
        ]
        for number, row in enumerate(rows):
            y = MARGIN + number * HEIGHT + 13
            column = 0
            while column < COLUMNS:
                end = column
                while end < COLUMNS and row[end][1] == row[column][1]:
                    end += 1
                text = "".join(character for character, _ in row[column:end])
                if text.strip():
                    x = MARGIN + column * WIDTH
                    style = " ".join(dict.fromkeys(row[column][1]))
                    out.append(
                        f'<text x="{x:.1f}" y="{y}" class="{style}" textLength='
                        f'"{len(text.rstrip()) * WIDTH:.1f}">{html.escape(text.rstrip())}</text>'
                    )
                column = end
        return "\n".join([*out, "</svg>", ""])


def session(program):
    """The output of a chat in which LINES are typed."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="xterm-256color")
        os.environ.pop("NO_COLOR", None)
        arguments = ["chat", "--no-history", "--device", "cpu", "--seed", "5", "-n", "120"]
        os.execv(program, [program, *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    output = b""

    def wait_for_prompt():
        """Reads until the editor has shown its prompt and is quiet."""
        nonlocal output
        begin, deadline = len(output), time.time() + 120
        while time.time() < deadline:
            ready, _, _ = select.select([terminal], [], [], 0.5)
            if ready:
                output += os.read(terminal, 65536)
            elif b"> " in output[begin:]:
                return
        raise SystemExit("the prompt does not come")

    wait_for_prompt()
    for line in LINES:
        os.write(terminal, line.encode() + b"\r")
        wait_for_prompt()
    os.write(terminal, b"\x04")
    os.waitpid(process, 0)
    return output.decode(errors="replace")


def main():
    screen = Screen()
    screen.feed(session(str(pathlib.Path(sys.argv[1]).resolve())))
    pathlib.Path(__file__).with_name("chat.svg").write_text(screen.svg())


if __name__ == "__main__":
    main()
