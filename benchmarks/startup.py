"""How long every `--help` takes, and that it loads no TensorFlow. The bar: 0.5 s."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

BAR_S = 0.5
COMMANDS = (
    [],
    *([name] for name in ("train", "synthesize", "profile", "plan", "monitor", "validate", "demo")),
    ["data", "check"],
)


def seconds(program: list[str]) -> float:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, *program], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    rows = {"import myxtts": ["-c", "import myxtts"]}
    rows |= {
        " ".join(["myxtts", *command, "--help"]): ["-m", "myxtts", *command, "--help"]
        for command in COMMANDS
    }
    slow = 0
    for name, program in rows.items():
        took = seconds(program)
        slow += took > BAR_S
        print(f"{name:28s} {took:6.3f} s   {'ok' if took <= BAR_S else 'over the bar'}")
    sys.exit(bool(slow))


if __name__ == "__main__":
    main()
