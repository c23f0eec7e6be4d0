"""The whole way in a real browser: recordings in, a voice out, whatever is closed in between.

MYXTTS_SCREENSHOTS=DIR keeps pictures of every language, theme and width, to be looked at.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

pytest.importorskip("uvicorn", reason="uvicorn is not installed (the extra `studio`)")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

from myxtts.inference.voice_files import load_voice
from myxtts.recordings.folder import ImportedClip, Origin, write_clips
from myxtts.text import espeak
from tests.browsers import MICROPHONE, fits, page_opener, start_browser
from tests.studios import make_desk, running

needs_espeak = pytest.mark.skipif(
    not espeak.is_available(),
    reason="espeakng-loader is not installed: pip install espeakng-loader",
)
SHOWN = [
    (lang, theme, width)
    for lang in ("en", "fa")
    for theme in ("light", "dark")
    for width in (390, 1400)
]
TEXTS = tuple(f"This is sentence number {number}." for number in range(1, 31))


@pytest.fixture(scope="module")
def browser():
    with start_browser(*MICROPHONE) as found:
        yield found


@pytest.fixture
def open_page(browser):
    with page_opener(browser, width=1400, height=900) as opener:
        yield opener


def keep_pictures(open_page, address, stage):
    folder = os.environ.get("MYXTTS_SCREENSHOTS")
    for lang, theme, width in SHOWN:
        page = open_page(f"{address}&lang={lang}", width=width, color_scheme=theme)
        page.wait_for_timeout(800)
        assert fits(page), (lang, theme, width)
        assert page.get_attribute("html", "dir") == ("rtl" if lang == "fa" else "ltr")
        if folder:
            name = f"{stage}-{lang}-{theme}-{width}.png"
            page.screenshot(path=Path(folder) / name, full_page=True)
        page.context.close()


def sound_of(page, address) -> np.ndarray:
    """What an address of the page plays."""
    answer = page.request.get(
        page.evaluate("(path) => new URL(path, document.baseURI).href", address)
    )
    assert answer.status == 200
    assert answer.headers["content-type"] == "audio/wav"
    return soundfile.read(io.BytesIO(answer.body()))[0]


def focused(page):
    return page.evaluate("document.activeElement.dataset?.key ?? document.activeElement.tagName")


# -- the page alone: quick --


@pytest.fixture
def studio(tmp_path):
    with running(tmp_path / "my voice") as server:
        texts = (*TEXTS[:3], "", f"Its <b>{'x' * 150}</b> name", *TEXTS[5:])
        make_desk(server.desk.project.path, texts=texts)
        yield server


@pytest.mark.slow
def test_clips_are_corrected_by_keyboard_alone(studio, open_page):
    page = open_page(studio.address)
    assert "token" not in page.url  # it belongs into no history
    rows = page.locator(".clips > li")
    assert rows.count() == 12
    page.focus("[data-show=all]")
    for _ in range(4):  # the other tabs, the pages, and then the list
        page.keyboard.press("Tab")
        if focused(page) not in ("BUTTON", "BODY"):
            break
    first = rows.nth(0).get_attribute("data-key")
    assert focused(page) == first
    page.keyboard.press("ArrowDown")
    assert focused(page) == rows.nth(1).get_attribute("data-key")
    with page.expect_response(re.compile("/clip/")):
        page.keyboard.press("Space")
    page.wait_for_selector(".clips > li:nth-child(2) .play.playing")
    page.keyboard.press("Enter")
    assert focused(page) == "TEXTAREA"
    page.keyboard.press("Control+A")
    page.keyboard.type("Corrected, by hand.")
    page.keyboard.press("Enter")
    page.wait_for_selector(".clips > li:nth-child(3):focus")
    page.keyboard.press("Enter")
    page.keyboard.type(" nothing of this")
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    page.wait_for_selector(".clips > li:nth-child(3).dropped")
    desk = studio.desk
    said = [
        json.loads(line) for line in (desk.project.data / "metadata.jsonl").read_text().splitlines()
    ]
    assert "Corrected, by hand." in {row["text"] for row in said}
    assert TEXTS[2] not in {row["text"] for row in said}
    assert not any("nothing of this" in row["text"] for row in said)
    page.keyboard.press("d")  # and in again
    page.wait_for_selector(".clips > li:nth-child(3):not(.dropped)")
    assert len(desk.clips.read().shown("dropped")) == 0
    for _ in range(10):
        page.keyboard.press("ArrowDown")
    page.wait_for_selector(".clips[data-page='2'] > li:nth-child(1):focus")


@pytest.mark.slow
def test_two_windows_show_the_same_and_a_lost_server_is_said(studio, open_page):
    one, two = open_page(studio.address), open_page(studio.address)
    one.click(".clips > li:nth-child(1) [data-action=drop]")
    two.wait_for_selector(".clips > li:nth-child(1).dropped", timeout=10_000)
    two.select_option("#language", "fa")
    one.reload()
    assert one.input_value("#language") == "fa"
    one.wait_for_selector("#sentence:not(:empty)", timeout=60_000)
    assert re.search("[آ-ی]", one.inner_text("#sentence"))
    studio.stop()
    one.wait_for_selector("body.lost", timeout=20_000)


@pytest.mark.slow
def test_a_script_is_read_into_the_microphone(studio, open_page):
    page = open_page(studio.address)
    page.wait_for_selector("#sentence:not(:empty)", timeout=60_000)
    text = page.inner_text("#sentence")
    page.click("#record")
    page.wait_for_selector("#microphone.recording")
    page.wait_for_timeout(2200)
    page.click("#record")
    page.wait_for_selector("#microphone:not(.recording)")
    page.wait_for_selector("text=read-en-0001.wav", timeout=10_000)
    recordings = studio.desk.project.recordings
    assert (recordings / "read-en-0001.txt").read_text().strip() == text
    wave, rate = soundfile.read(recordings / "read-en-0001.wav")
    assert wave.ndim == 1
    assert 1.5 < len(wave) / rate < 6
    assert np.abs(wave).max() > 0.01
    assert "1 read" in page.inner_text("#counted")


@pytest.mark.slow
def test_every_language_theme_and_width_shows_all_of_it(studio, open_page):
    keep_pictures(open_page, studio.address, "clips")


# -- the whole way --


@pytest.mark.slow
@needs_espeak
@pytest.mark.timeout(1500)
def test_the_whole_way(tmp_path, open_page):
    from myxtts.corpora.demo import make_demo_corpus

    corpus = make_demo_corpus(tmp_path / "corpus", voices=1, sentences=80).folder
    files = gather(corpus, tmp_path / "mine")
    with running(tmp_path / "my voice") as server:
        project = server.desk.project
        page = open_page(server.address)
        page.set_input_files("#files", files)
        page.locator(".files li").nth(41).wait_for(state="attached", timeout=60_000)
        page.reload()
        page.click("[data-action=import]")
        page.wait_for_selector(".clips > li", timeout=300_000)
        page.wait_for_selector("[data-action=import]:enabled", timeout=60_000)
        page.click("[data-action=hear]")
        correct_and_drop(page, project)
        page.wait_for_selector("[data-action=hear]", timeout=200_000)
        assert (project.own / "findings.json").is_file()
        page.fill("#steps", "30")
        page.click("form[data-action=train] button >> nth=0")
        page.wait_for_selector("[data-action=stop]", timeout=30_000)
        page.close()  # costs nothing
        page = open_page(server.address)
        page.wait_for_selector("text=/Step [0-9]+ of 30/", timeout=400_000)
        page.wait_for_selector("#train form[data-action=train]", timeout=300_000)
        page.wait_for_selector("#listen audio", timeout=60_000)
        keep_pictures(open_page, server.address, "trained")
        address = page.locator("#listen audio").last.get_attribute("src")
        assert np.abs(sound_of(page, address)).max() > 0.01
        assert "finished" in page.inner_text("#listen")
        speak(page)
        page.click("#export [data-action=export]")
        page.wait_for_selector("#export .command code", timeout=60_000)
    voice = load_voice(project.voice)
    assert voice.step == 30


@pytest.mark.slow
@needs_espeak
@pytest.mark.timeout(900)
def test_a_training_is_stopped_and_goes_on(tmp_path, open_page):
    from myxtts.corpora.demo import make_demo_corpus

    corpus = make_demo_corpus(tmp_path / "corpus", voices=1, sentences=80).folder
    with running(tmp_path / "my voice") as server:
        shutil.copytree(corpus / "wavs", server.desk.project.data / "wavs")
        write_clips(server.desk.project.data, listed_in(corpus))
        page = open_page(server.address)
        page.fill("#steps", "2000")
        page.click("form[data-action=train] button >> nth=0")
        page.wait_for_selector("#train >> text=/Step [0-9,]+ of 2,000/", timeout=400_000)
        page.click("[data-action=stop]")
        stopped = page.wait_for_selector("#train >> text=/Stopped at step/", timeout=120_000)
        step = int(re.search(r"step ([0-9,]+)", stopped.inner_text())[1].replace(",", ""))
        assert 0 < step < 2000
        page.reload()
        page.click("#train >> text=Go on")
        page.wait_for_selector("[data-action=stop]", timeout=30_000)
        page.wait_for_selector("#listen >> text=running", timeout=400_000)
        page.click("[data-action=stop]")
        page.wait_for_selector("#train >> text=/Stopped at step/", timeout=200_000)
        assert server.desk.follow()[1].step >= step


def listed_in(corpus: Path) -> list[ImportedClip]:
    rows = [line.split("|") for line in (corpus / "metadata.csv").read_text().splitlines()]
    named = [(f"wavs/{Path(row[0]).stem}.wav", row[1]) for row in rows]
    return [
        ImportedClip(name, text, "ann", "en", Origin(name))
        for name, text in named
        if (corpus / name).is_file()
    ]


def gather(corpus: Path, folder: Path) -> list[Path]:
    """Twenty short recordings with their texts, and a long one with its own."""
    folder.mkdir()
    rows = [line.split("|") for line in (corpus / "metadata.csv").read_text().splitlines()]
    rows = [row for row in rows if (corpus / "wavs" / f"{Path(row[0]).stem}.wav").is_file()]
    waves, texts = [], []
    for number, row in enumerate(rows[:36]):
        sound = corpus / "wavs" / f"{Path(row[0]).stem}.wav"
        if number < 20:
            (folder / f"{number:02d}.wav").write_bytes(sound.read_bytes())
            (folder / f"{number:02d}.txt").write_text(row[1])
        else:
            wave, rate = soundfile.read(sound)
            waves += [wave, np.zeros(rate // 2)]
            texts.append(row[1])
    soundfile.write(folder / "long.wav", np.concatenate(waves), rate)
    (folder / "long.txt").write_text(" ".join(texts))
    return sorted(folder.iterdir())


def correct_and_drop(page, project) -> None:
    page.fill(".clips > li:nth-child(1) textarea", "Something that was said.")
    page.keyboard.press("Enter")
    key = page.get_attribute(".clips > li:nth-child(2)", "data-key")
    page.click(".clips > li:nth-child(2) [data-action=drop]")
    page.wait_for_selector(".clips > li:nth-child(2).dropped")
    page.reload()
    assert page.input_value(".clips > li:nth-child(1) textarea") == "Something that was said."
    assert page.get_attribute(".clips > li.dropped", "data-key") == key
    listed = (project.data / "metadata.jsonl").read_text()
    assert "Something that was said." in listed
    assert len((project.data / "dropped.jsonl").read_text().splitlines()) == 1
    assert np.abs(sound_of(page, f"clip/{key}")).max() > 0.01


def speak(page) -> None:
    page.fill("#say textarea", "The bright green bird sings.")
    page.click("#say .primary")
    page.wait_for_selector(".spoken audio", timeout=200_000)
    wave = sound_of(page, page.get_attribute(".spoken audio", "src"))
    assert np.abs(wave).max() > 0.01
    assert len(wave) > 11_025
    with page.expect_download() as downloading:
        page.click(".spoken a")
    assert downloading.value.suggested_filename.endswith(".wav")
