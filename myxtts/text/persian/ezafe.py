"""Where the ezafe is said: the tagger's opinion, mended by what grammar rules out or demands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from myxtts.text.persian.files import read_lines
from myxtts.text.persian.lexicon import first_names
from myxtts.text.persian.morphology import Known
from myxtts.text.persian.numbers import NUMBER_WORDS
from myxtts.text.persian.spoken import MONTHS


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Before anything that is no verb and no mark.
_ALWAYS = _set(
    "بدون روی توسط مثل مانند ضد درباره دربارهٔ طبق سراسر جلوی بالای هنگام برحسب به‌خاطر به‌عنوان به‌دلیل به‌علت "
    "به‌جای به‌سوی به‌سمت به‌همراه قریب مورد قابل غیر باعث موجب سبب شامل دچار خواستار اهل دنبال صاحب انواع تمام "
    "سایر برخلاف به‌وسیله علیه نزد"
)
_NEVER = _set(
    "و یا که را به از با تا بر اگر چون اما ولی هم نیز برای این آن هر هیچ یک چند همین همان چه کدام خیلی بسیار است بود "
    "شد نیست هست باید شاید آیا بله نه خیر سلام لطفاً لطفا امروز دیروز فردا امشب دیشب امسال پارسال الان اکنون حالا "
    "هنوز همیشه هرگز فقط حتی البته اینجا آنجا کجا چرا چطور چگونه چقدر کی او مرا رو بهترین بزرگ‌ترین آخرین اولین "
    "دومین سومین مهم‌ترین یکی برخی بعضی چندین بنابراین سپس پس دیگه یه اگه مگه نخیر آره کاش وقتی بعدی قبلی دکتر "
    "مهندس"
)
_NEVER_BEFORE = _set("از به در با تا بر برای ولی اما هنوز همیشه هرگز فقط نیز هم را و یا که اگر چون باید نباید شاید")
_DAYS = _set("امروز دیروز فردا امشب دیشب امسال پارسال پریروز دیگه الان اکنون")
_OF_A_DAY = _set(
    "صبح ظهر عصر شب غروب بعدازظهر عید نوروز بهار تابستان پاییز زمستان روز جلسه مسابقه بازی جهان نسل اخبار جوانان"
)
_TIMES = _set("روز هفته ماه سال شب صبح فصل بهار تابستان پاییز زمستان قرن دهه شنبه جمعه ساعت")
_RELATIVE = _set("آینده گذشته بعد قبل پیش جاری دیگر را")
_SPANS = _set("پایان آغاز ابتدای ابتدا اواخر اوایل اواسط طول طی مدت اول آخر نیمه")
_BEFORE_NUMBER = _set(
    "ساعت سال شماره صفحه تلفن جلد دهه قرن کد پلاک طبقه اتاق ردیف کلید فصل نمره رتبه کانال سن سایز درس مرحله بند "
    "ماده خط"
)
_ADVERBS = _set("کم زیاد زود دیر سریع آرام")
_LIGHT = _set("کرد شد داد بود داشت گشت گرفت ماند")
_FUTURE = _set("خواهم خواهی خواهد خواهیم خواهید خواهند")
_COPULA = _set("است نیست بود نبود شد نشد می‌شود نمی‌شود هست باشد شده")
_AGENTS = _set(
    "دولت مجلس پلیس دادگاه ارتش شهرداری وزیر مدیر معلم استاد پدر مادر برادر خواهر پسر دختر "
    "مرد زن پزشک دکتر راننده فروشنده مأمور مردم بچه کودک مربی داور قاضی کارگر کشاورز نویسنده خبرنگار دانشمندان "
    "کارشناسان کارگران معلمان پژوهشگران مهندسان"
)
_LIKELY = 0.35
_PAIRS = frozenset(
    (("سیب", "زمینی"), ("گوجه", "فرنگی"), ("توت", "فرنگی"), ("پسر", "عمو"), ("دختر", "خاله"), ("همه", "چیز"))
)
_AGENT_ENDINGS = ("فروش", "کار", "گر", "مند", "بان", "چی", "پزشک", "شناس")
_FAMILY_ENDINGS = ("پور", "زاده", "نژاد", "فر")


class _Place(NamedTuple):
    """A word in its sentence, and the two behind it."""

    word: str
    tag: str
    likely: float  # how likely the tagger thinks it
    known: Known | None
    before: str  # the tag of the word before
    in_chain: bool  # the word before has an ezafe
    next: str
    next_tag: str
    next_known: Known | None
    after: str
    after_known: Known | None


def mark_ezafe(
    words: Sequence[str],
    tags: Sequence[str],
    known: Sequence[Known | None],
    likely: Sequence[float],
) -> list[bool]:
    """Say for each word of a sentence (its marks are words of their own) whether it takes it."""
    marked = []
    for i in range(len(words)):
        following = (*words[i + 1 : i + 3], ".", ".")
        tag_after = tags[i + 1] if i + 1 < len(words) else "PUNC"
        known_after = (*known[i + 1 : i + 3], None, None)
        place = _Place(
            words[i], tags[i], likely[i], known[i], tags[i - 1] if i else "",
            i > 0 and marked[-1], following[0], tag_after, known_after[0], following[1],
            known_after[1],
        )  # fmt: skip
        marked.append(_takes(place, ends_phrase=_ends_phrase(words, tags, i)))
    return marked


def _takes(place: _Place, *, ends_phrase: bool) -> bool:
    word, tag = place.word, place.tag
    if not word[:1].isalpha() or not place.next[:1].isalpha():
        return False
    if place.known is not None and place.known.ezafe:  # written: خانه‌ی, کتاب‌های
        return True
    if ends_phrase or _ruled_out(place):
        return False
    if place.next in NUMBER_WORDS:
        return word in _BEFORE_NUMBER or word in MONTHS or (
            tag == "N" and place.likely > 0.5 and word not in NUMBER_WORDS
        )
    if word in NUMBER_WORDS:
        return False
    if place.next in MONTHS and word.endswith(("م", "‌ام")):
        return True  # the twelfth of Mordad
    if word in _ALWAYS:
        return True
    if word == "حال" and place.next_tag in ("N", "PRO"):
        return True
    if place.likely >= _LIKELY:
        return True
    # A noun, an adjective and a verb that is more than "is" or "does".
    described = tag == "N" and place.before != "DET" and place.next_tag == "AJ"
    if not described or place.next in _RELATIVE or place.next.endswith("تر"):
        return False
    verb = place.after_known.verb if place.after_known else ""
    return bool(verb) and verb not in _LIGHT and not _makes_verb(place.next, verb)


def _ruled_out(place: _Place) -> bool:
    word = place.word
    if word in _NEVER or place.next in _NEVER_BEFORE or (word, place.next) in _PAIRS:
        return True
    if place.tag == "V" and place.known is not None and place.known.verb:
        return True
    if place.next in _DAYS:
        return word not in _OF_A_DAY
    if place.next_tag in ("V", "POSTP", "CONJ", "PUNC"):
        return place.next_tag != "V" or place.next_known is None or bool(place.next_known.verb)
    if place.next_known is not None and place.next_known.surely_verb:
        return True
    participle = place.next.endswith("ه") and place.next_known is not None
    if participle and place.next_known.verb and place.after in _COPULA:  # `گذشته است`
        return True
    if word in first_names() or word.endswith(_FAMILY_ENDINGS):
        return place.next_tag in ("N", "NUM")
    if place.next in _TIMES and place.after in _RELATIVE and word not in _SPANS:
        return True
    verb = place.after_known.verb if place.after_known else ""
    if place.after in _FUTURE and any(place.next in nouns for nouns in _compounds().values()):
        return True
    if verb and (place.next in _ADVERBS or _makes_verb(place.next, verb)):
        return True
    predicate = place.next_tag == "AJ" and place.after in _COPULA
    return predicate and (place.in_chain or place.before in ("P", "DET"))


def _ends_phrase(words: Sequence[str], tags: Sequence[str], place: int) -> bool:
    """`پلیس | راننده را`, `قبل از ورزش | بدن خود را`: an object of its own begins behind it."""
    word = words[place]
    if place == 0:
        agent = word in _AGENTS or word.endswith(_AGENT_ENDINGS)
        return agent and tags[1:2] != ["AJ"] and _leads_to_object(words, tags)
    after_time = words[place - 1] == "از" and words[max(place - 2, 0)] in ("قبل", "بعد", "پس")
    return after_time and not word.endswith("ن") and _leads_to_object(words[place:], tags[place:])


def _leads_to_object(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether nouns and adjectives alone stand between the first word and a `را`."""
    for word, tag in zip(words[1:], tags[1:], strict=True):
        if word == "را":
            return True
        if tag not in ("N", "AJ", "PRO", "DET", "NUM"):
            return False
    return False


@lru_cache(maxsize=1)
def _compounds() -> dict[str, frozenset[str]]:
    table: dict[str, frozenset[str]] = {}
    for line in read_lines("compound_verbs.txt"):
        stem, *nouns = line.split()
        table[stem] = frozenset(nouns)
    return table


def _makes_verb(noun: str, stem: str) -> bool:
    return noun in _compounds().get(stem, ())
