import pytest

from judges.languages import SUPPORTED, spoken, supported

TEXTS = {
    "en": "The old mill of the town was rebuilt in 1913 and it still grinds rye.",
    "de": "Die alte Mühle der Stadt wurde 1913 wieder aufgebaut und mahlt noch heute Roggen.",
    "fr": "Le vieux moulin de notre ville a été reconstruit en 1913 et il moud encore du seigle avec une meule.",
    "es": "El viejo molino de la ciudad fue reconstruido en 1913 y hoy muele centeno.",
    "it": "Il vecchio mulino della città è stato ricostruito nel 1913 e macina ancora segale.",
    "pt": "O velho moinho da cidade foi reconstruído em 1913 e ainda hoje mói centeio.",
    "nl": "De oude molen van de stad werd in 1913 herbouwd en maalt nog steeds rogge.",
    "pl": "Stary młyn został odbudowany w 1913 roku i do dziś miele żyto, więc wieś się cieszy.",
    "ru": "Старая мельница была восстановлена в 1913 году и до сих пор мелет рожь.",
    "zh": "老磨坊于1913年重建，至今仍在磨黑麦。",
    "ja": "古い水車小屋は1913年に再建され、今もライ麦を挽いている。",
    "ar": "أعيد بناء الطاحونة القديمة في عام 1913 ولا تزال تطحن الجاودار.",
    "uk": "Старий млин відбудували 1913 року, і він досі меле жито.",
    "cs": "Starý mlýn byl v roce 1913 přestavěn a dodnes mele žito, říká se, že velmi dobře.",
    "sv": "Den gamla kvarnen byggdes upp igen år 1913 och mal råg ännu på åttiotalet.",
    "fa": "آسیاب قدیمی در سال ۱۹۱۳ بازسازی شد و هنوز چاودار آرد می‌کند، گفته شده که پاک است.",
    "ko": "오래된 방앗간은 1913년에 재건되어 지금도 호밀을 빻는다.",
    "el": "Ο παλιός μύλος ξαναχτίστηκε το 1913 και αλέθει ακόμη σίκαλη.",
    "hi": "पुरानी चक्की 1913 में फिर से बनाई गई थी।",
}


@pytest.mark.parametrize(("code", "text"), TEXTS.items())
def test_the_language_of_a_sentence(code, text):
    assert spoken(text) == code
    assert supported(text) is (code in SUPPORTED)


@pytest.mark.parametrize("text", ["", "1913", "🙂", "Tornby, Aldersey, Nordkai", "x = 5"])
def test_what_has_no_language_is_not_held_against_it(text):
    assert spoken(text) is None
    assert supported(text)


def test_a_foreign_name_makes_no_other_language():
    assert spoken("The engineer Jiří Dvořák moved to the old harbour of the town and lived there.") == "en"
