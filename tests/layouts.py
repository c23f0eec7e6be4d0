"""Folders of recordings as people have them, made small: hums and a few words."""

from __future__ import annotations

import numpy as np
import soundfile

from myxtts.features.audio import SAMPLE_RATE

WORDS = "one two three four five six seven".split()


def hum(path, seconds=0.8, pitch=120.0, rate=SAMPLE_RATE, **form):
    path.parent.mkdir(parents=True, exist_ok=True)
    t = np.arange(int(seconds * rate)) / rate
    wave = 0.2 * sum(np.sin(2 * np.pi * k * pitch * t) / k for k in (1, 2, 3))
    soundfile.write(path, wave, rate, **form)
    return path


def common_voice(folder):
    """As Mozilla packs it: MP3 at 32 or 48 kHz, 128-letter speakers, votes, a locale."""
    names = "client_id path sentence_id sentence sentence_domain up_votes down_votes age gender"
    rows = ["\t".join([*names.split(), "accents", "variant", "locale", "segment"])]
    for i in range(4):
        name = f"common_voice_en_{100 + i}.mp3"
        hum(folder / "clips" / name, rate=32_000, pitch=100 + 10 * i, format="MP3")
        votes = ("0", "2") if i == 3 else ("2", "0")
        speaker = "ab" * 32 if i < 2 else "cd" * 32
        text = f'The "{WORDS[i]}" of them.'
        rows.append("\t".join([speaker, name, f"{i}", text, "", *votes, "", "", "", "", "en", ""]))
    (folder / "validated.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def vctk(folder):
    """Version 0.92: two microphones as FLAC, a text a clip, and one text without a recording."""
    for speaker in ("p225", "p226"):
        for i in (1, 2):
            stem = f"{speaker}_{i:03d}"
            for mic in ("mic1", "mic2"):
                wave = folder / "wav48_silence_trimmed" / speaker / f"{stem}_{mic}.flac"
                hum(wave, rate=48_000)
            text = folder / "txt" / speaker / f"{stem}.txt"
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text(f"Please call {WORDS[i]}.\n", encoding="utf-8")
    (folder / "txt" / "p226" / "p226_003.txt").write_text("Nobody said this.", encoding="utf-8")
    return folder


def libritts(folder):
    for speaker, chapter in (("84", "121123"), ("174", "50561")):
        home = folder / "dev-clean" / speaker / chapter
        stem = f"{speaker}_{chapter}_000001_000000"
        hum(home / f"{stem}.wav", rate=24_000)
        (home / f"{stem}.original.txt").write_text("He had 2.", encoding="utf-8")
        (home / f"{stem}.normalized.txt").write_text("He had two.", encoding="utf-8")
        (home / f"{speaker}_{chapter}.trans.tsv").write_text(f"{stem}\tHe had 2.\tHe had two.\n")
    return folder


def piper(folder):
    rows = []
    for i in range(6):
        hum(folder / "wav" / f"{i}.wav", rate=16_000)
        rows.append(f"{i}|{('amy', 'joe')[i % 2]}|{WORDS[i]} {WORDS[i - 1]}.\n")
    (folder / "metadata.csv").write_text("".join(rows), encoding="utf-8")
    return folder


def ljspeech(folder):
    rows = []
    for i in range(4):
        hum(folder / "wavs" / f"LJ001-000{i}.wav")
        rows.append(f"LJ001-000{i}|It is {i}.|It is {WORDS[i]}.\n")
    (folder / "metadata.csv").write_text("".join(rows), encoding="utf-8")
    return folder


def coqui(folder):
    rows = ["audio_file|text|speaker_name\n"]
    for i in range(3):
        hum(folder / "wavs" / f"audio{i}.wav")
        rows.append(f"wavs/audio{i}.wav|Say {WORDS[i]}.|@me\n")
    (folder / "metadata_train.csv").write_text("".join(rows), encoding="utf-8")
    return folder


def audiofolder(folder):
    rows = []
    for i in range(3):
        hum(folder / "train" / f"{i}.flac")
        rows.append(f'{{"file_name": "train/{i}.flac", "transcription": "Say {WORDS[i]}."}}\n')
    (folder / "metadata.jsonl").write_text("".join(rows), encoding="utf-8")
    return folder


LAYOUTS = {
    "common-voice": common_voice,
    "vctk": vctk,
    "libritts": libritts,
    "piper": piper,
    "ljspeech": ljspeech,
    "coqui": coqui,
    "audiofolder": audiofolder,
}
