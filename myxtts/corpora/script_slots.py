"""Words that combine into sentences worth reading aloud, where the built-in sentences are too few.

One of each slot in the order of the template; every combination is a sentence that people say.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

from myxtts.corpora.base_texts import sentences_of
from myxtts.corpora.demo_sentences import SLOTS, draw_slot_sentences

MOST_DRAWN = {"en": 1200, "fa": 600}  # sentences to choose from: about 40 minutes each


class _Template(NamedTuple):
    words: str  # with the slots in braces
    slots: Mapping[str, tuple[str, ...]]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("،"))


_PERSIAN = (
    _Template(
        "{when} {who} {where} یک {what} {like} {did}.",
        {
            "when": _list(
                "دیروز عصر، پارسال بهار، هفتهٔ گذشته، صبح زود، آخر شب، چند روز پیش، روز جمعه، "
                "اول مهر، ظهر امروز، شب یلدا، پیش از ناهار، بعد از باران"
            ),
            "who": _list(
                "مریم، پدرم، همسایهٔ ما، ژاله، استاد قدیمی، خواهر کوچک علی، غلام‌حسین، راننده، "
                "دوست عموزاده‌ام، پزشک جوان، چوپان پیر، فروغ، بهرام و ژینا، معلم ورزش"
            ),
            "where": _list(
                "در بازار تجریش، کنار دریاچه، از مغازهٔ روبه‌رو، نزدیک ایستگاه قطار، در حیاط مدرسه، "
                "پشت پنجره، توی کتابخانه، روی پل چوبی، زیر درخت انجیر، از نمایشگاه اصفهان"
            ),
            "what": _list(
                "کتاب، ژاکت، چراغ، ساعت، صندلی، گلدان، نقشه، قالیچه، عینک، ظرف، پیراهن، دفتر، جعبه، تابلو"
            ),
            "like": _list(
                "قدیمی، سبز، سنگین، ارزان، زیبا، عجیب، شکسته، خوش‌رنگ، بزرگ، چوبی، ژاپنی، گران‌قیمت"
            ),
            "did": _list("خرید، پیدا کرد، دید، فروخت، گذاشت، آورد، به من نشان داد، از یاد برد"),
        },
    ),
    _Template(
        "{ask} {who} {thing} را {where} {did}؟",
        {
            "ask": _list("چرا، کی، آیا، از کجا می‌دانی که، چه وقت، مطمئنی که"),
            "who": _list(
                "احمد، دخترعمویت، خانم ژیان، آقای صفوی، مهمان‌ها، این بچه، باغبان، کسی، قاضی، نگهبان"
            ),
            "thing": _list(
                "کلید خانه، نامهٔ اداره، چمدان آبی، قابلمه، دوچرخه، بلیت هواپیما، گوشی من، شیر آب، "
                "پول نقد، لیوان چای، صفحهٔ آخر"
            ),
            "where": _list(
                "پیش ما، در آشپزخانه، این‌جا، به همدان، با عجله، بی‌اجازه، دوباره، پنهانی، تا فردا"
            ),
            "did": _list("گذاشت، نگه داشت، جا گذاشت، فرستاد، عوض کرد، بست، خواست، برد"),
        },
    ),
)


def sentences_to_read(language: str, *, seed: int = 0) -> list[str]:
    """Sentences of a language to choose a script from: the built-in ones first, then drawn ones."""
    found = list(sentences_of(language))
    rng = random.Random(seed)  # noqa: S311 - a shuffle, not a secret
    if language == "en":
        found += draw_slot_sentences(SLOTS, num_sentences=MOST_DRAWN[language], rng=rng)
    if language == "fa":
        drawn: dict[str, None] = {}
        while len(drawn) < MOST_DRAWN[language]:
            template = rng.choice(_PERSIAN)
            words = {name: rng.choice(some) for name, some in template.slots.items()}
            drawn[template.words.format(**words)] = None
        found += drawn
    return list(dict.fromkeys(found))
