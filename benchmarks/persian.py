"""How well Persian is read, against espeak-ng: words, ezafe, numbers, speed, memory, hostile text.

The set was written for this benchmark: `dev` was developed on, `test` looked at once. A word is
right if its vowels and consonants are; stress, glottal stops, doubling and the glide of ow do not
count (the strict share counts all but stress).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import psutil

from benchmarks.persian_scores import Scores, number_cases, read_gold, without_ezafe
from myxtts.text import espeak
from myxtts.text.normalize import normalize_text
from myxtts.text.persian.lexicon import own_words, package_words
from myxtts.text.persian.phonemes import from_ipa
from myxtts.text.tokenizers import PhonemeTokenizer, read_persian_words

GROUPS = ("in the lexicon", "unseen")
BARS = {"in the lexicon": 0.95, "unseen": 0.75}
EZAFE_BAR = 0.90
SPEED_BAR = 2000  # words a second
GROWTH_BAR = 20.0  # MB, over the text after its first fifth
HOSTILE = (
    "سلام hello 你好 Привет مرحبا नमस्ते", "\u202eسلام\u202c \u200f۱۲\u200e", "😀🙈 سلام 👨‍👩‍👧 خوبی؟",
    "ا" * 100_000, "سلام " * 20_000, "۱" * 20_000, "\u200c" * 5000, "ّ" * 5000 + "َُِ" * 1000, "،؛؟!." * 3000,
    "\x00\x1b[31m\ud800سلام", "می " * 5000, "a1ب2" * 3000, "۱/" * 3000 + "۲", "ه‌ی" * 3000, "(ع)" * 2000,
)  # fmt: skip


def measure(part: str) -> tuple[Scores, Scores]:
    ours, theirs = Scores(), Scores()
    own, packaged = own_words(), package_words()
    for text, gold in read_gold(part):
        read = [w for w in read_persian_words(normalize_text(text, "fa"), None) if not w.is_mark]
        if len(read) != len(gold):
            raise SystemExit(f"{text}: {len(read)} words read, {len(gold)} written down")
        whole = espeak.phonemize(text, "fa").split()
        for place, (word, found) in enumerate(zip(gold, read, strict=True)):
            bare = word.word.replace("\u200c", "").replace("\u064b", "")
            group = GROUPS[0] if bare in own or bare in packaged else GROUPS[1]
            said = from_ipa(found.phonemes)
            if found.ezafe:
                said = said.removesuffix("e")
                said = said.removesuffix("y") if found.reading.endswith("-ye") else said
            ours.add(word, said.replace("ov", "ow") if said.endswith("ov") else said,
                     ezafe=found.ezafe, group=group)  # fmt: skip
            # espeak-ng may run words together; then each is asked for by itself.
            alone = whole[place] if len(whole) == len(gold) else espeak.phonemize(word.word, "fa")
            heard, ezafe = without_ezafe(alone.replace(" ", ""), word)
            theirs.add(word, heard, ezafe=ezafe, group=group)
    return ours, theirs


def show(part: str, ours: Scores, theirs: Scores) -> bool:
    words = sum(ours.all.values())
    print(f"\n{part}: {words} words, {ours.found + ours.missed} with ezafe")
    print(f"{'':32s}{'MyXTTS':>10s}{'espeak-ng':>12s}{'bar':>7s}")
    rows = [
        (f"words right, {group} ({ours.all[group]})", ours.share(group), theirs.share(group), bar)
        for group, bar in BARS.items()
    ]
    rows += [
        ("ezafe: precision", ours.precision, theirs.precision, EZAFE_BAR),
        ("ezafe: recall", ours.recall, theirs.recall, EZAFE_BAR),
    ]
    for name, own, other, bar in rows:
        print(f"{name:32s}{own:10.3f}{other:12.3f}{bar:7.2f}{'' if own >= bar else '  MISSED'}")
    for group in GROUPS:
        strict = ours.share(group, strict=True), theirs.share(group, strict=True)
        print(f"{'  strict, ' + group:32s}{strict[0]:10.3f}{strict[1]:12.3f}")
    return all(own >= bar for _, own, _, bar in rows)


def check_numbers() -> bool:
    cases = list(number_cases())
    wrong = [(w, s, said) for w, s in cases if (said := normalize_text(w, "fa")) != s]
    for written, expected, said in wrong:
        print(f"  {written}: {said}, not {expected}")
    print(
        f"\nnumbers, dates, times, money, phones: {len(cases) - len(wrong)} of {len(cases)} right"
    )
    return not wrong


def check_speed_and_memory(megabytes: float) -> bool:
    docs = Path(__file__).parents[1] / "docs" / "fa"
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(docs.glob("*.md")))
    lines = [line for line in text.splitlines() if line.strip()]
    tokenizer = PhonemeTokenizer()
    tokenizer.encode("سلام دنیا، این یک آزمایش است.", "fa")  # tables and tagger are loaded
    espeak.phonemize("x", "fa")
    began, words = time.process_time(), 0
    for line in lines:
        words += sum(
            not word.is_mark for word in read_persian_words(normalize_text(line, "fa"), None)
        )
    speed = words / (time.process_time() - began)
    ok = speed >= SPEED_BAR
    print(f"speed: {speed:,.0f} words a second on one core ({words:,} new words of docs/fa)"
          f"{'' if ok else '  MISSED'}")  # fmt: skip
    process, shuffled, done, early = psutil.Process(), random.Random(0), 0, 0.0
    while done < megabytes * 1e6:
        shuffled.shuffle(lines)
        for line in lines:
            tokenizer.encode(line, "fa")
            done += len(line.encode())
            if not early and done > megabytes * 2e5:
                early = process.memory_info().rss / 1e6
            if done >= megabytes * 1e6:
                break
    growth = process.memory_info().rss / 1e6 - early
    span = f"from {megabytes / 5:g} to {megabytes:g} MB of text"
    print(f"memory: {growth:+.1f} MB {span} (bar {GROWTH_BAR:g})")
    return ok and growth <= GROWTH_BAR


def check_hostile() -> bool:
    tokenizer = PhonemeTokenizer()
    slowest = 0.0
    for text in HOSTILE:
        began = time.perf_counter()
        tokenizer.encode(text, "fa")
        slowest = max(slowest, time.perf_counter() - began)
    print(f"hostile texts read without failing: {len(HOSTILE)}, the slowest in {slowest:.1f} s")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("dev", "test", "both"), default="both")
    parser.add_argument("--megabytes", type=float, default=5.0)
    arguments = parser.parse_args()
    parts = ("dev", "test") if arguments.part == "both" else (arguments.part,)
    passed = [show(part, *measure(part)) for part in parts]
    passed.append(check_numbers())
    if arguments.megabytes:
        passed.append(check_speed_and_memory(arguments.megabytes))
    passed.append(check_hostile())
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
