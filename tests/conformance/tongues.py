"""Each language whose claims are judged: what is said in it, what of that is supported, and a question."""

from dataclasses import dataclass


@dataclass
class Tongue:
    """A passage, a claim that it supports, one that it does not, and a question in the language."""

    passage: str
    supported: str
    unsupported: str
    question: str


TONGUES = {
    "en": Tongue(
        "The old mill of Tornby was rebuilt in 1913 and grinds rye today.",
        "The old mill of Tornby was rebuilt in 1913.",
        "The old mill of Tornby was rebuilt in 1933.",
        "When was the old mill of the town rebuilt?",
    ),
    "de": Tongue(
        "Die alte Mühle der Stadt wurde im Jahr 1913 wieder aufgebaut und mahlt noch heute Roggen.",
        "Die alte Mühle der Stadt wurde im Jahr 1913 wieder aufgebaut.",
        "Die alte Mühle der Stadt wurde im Jahr 1933 wieder aufgebaut.",
        "Wann wurde die alte Mühle der Stadt wieder aufgebaut?",
    ),
    "fr": Tongue(
        "Le vieux moulin de notre ville a été reconstruit en 1913 et il moud encore du seigle avec une meule.",
        "Le vieux moulin de notre ville a été reconstruit en 1913.",
        "Le vieux moulin de notre ville a été reconstruit en 1933.",
        "Quand est-ce que le vieux moulin de notre ville a été reconstruit ?",
    ),
    "es": Tongue(
        "El viejo molino de la ciudad fue reconstruido en 1913 y hoy muele centeno.",
        "El viejo molino de la ciudad fue reconstruido en 1913.",
        "El viejo molino de la ciudad fue reconstruido en 1933.",
        "¿Cuándo fue reconstruido el viejo molino de la ciudad?",
    ),
    "it": Tongue(
        "Il vecchio mulino della città è stato ricostruito nel 1913 e macina ancora segale.",
        "Il vecchio mulino della città è stato ricostruito nel 1913.",
        "Il vecchio mulino della città è stato ricostruito nel 1933.",
        "Quando è stato ricostruito il vecchio mulino della città?",
    ),
    "pt": Tongue(
        "O velho moinho da cidade foi reconstruído em 1913 e ainda hoje mói centeio.",
        "O velho moinho da cidade foi reconstruído em 1913.",
        "O velho moinho da cidade foi reconstruído em 1933.",
        "Quando foi reconstruído o velho moinho da cidade?",
    ),
    "nl": Tongue(
        "De oude molen van de stad werd in 1913 herbouwd en maalt nog steeds rogge.",
        "De oude molen van de stad werd in 1913 herbouwd.",
        "De oude molen van de stad werd in 1933 herbouwd.",
        "Wanneer werd de oude molen van de stad herbouwd?",
    ),
    "pl": Tongue(
        "Stary młyn został odbudowany w 1913 roku i do dziś miele żyto.",
        "Stary młyn został odbudowany w 1913 roku.",
        "Stary młyn został odbudowany w 1933 roku.",
        "Kiedy został odbudowany stary młyn, który miele żyto i mąkę?",
    ),
    "ru": Tongue(
        "Старая мельница была восстановлена в 1913 году и до сих пор мелет рожь.",
        "Старая мельница была восстановлена в 1913 году.",
        "Старая мельница была восстановлена в 1933 году.",
        "Когда была восстановлена старая мельница?",
    ),
    "zh": Tongue(
        "老磨坊于1913年重建，至今仍在磨黑麦。", "老磨坊于1913年重建。", "老磨坊于1933年重建。", "老磨坊是哪一年重建的？"
    ),
    "ja": Tongue(
        "古い水車小屋は1913年に再建され、今もライ麦を挽いている。",
        "古い水車小屋は1913年に再建された。",
        "古い水車小屋は1933年に再建された。",
        "古い水車小屋はいつ再建されましたか？",
    ),
    "ar": Tongue(
        "أعيد بناء الطاحونة القديمة في عام 1913 ولا تزال تطحن الجاودار.",
        "أعيد بناء الطاحونة القديمة في عام 1913.",
        "أعيد بناء الطاحونة القديمة في عام 1933.",
        "متى أعيد بناء الطاحونة القديمة؟",
    ),
}
