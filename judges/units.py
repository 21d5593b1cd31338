"""What the words around a number mean: months, powers of ten, currencies, units and small numbers in words.

English, German, French and Spanish in full, months of three languages more. Symbols are told apart by case.
"""

from decimal import Decimal

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "January Jan Januar Jänner janvier enero gennaio janeiro januari",
            "February Feb Februar février febrero febbraio fevereiro februari",
            "March Mar März mars marzo março maart",
            "April Apr avril abril aprile april",
            "May Mai mai mayo maggio maio mei",
            "June Jun Juni juin junio giugno junho juni",
            "July Jul Juli juillet julio luglio julho juli",
            "August Aug août agosto augustus",
            "September Sep Sept septembre septiembre settembre setembro september",
            "October Oct Oktober octobre octubre ottobre outubro oktober",
            "November Nov novembre noviembre november",
            "December Dec Dezember décembre diciembre dicembre dezembro december",
        ),
        1,
    )
    for name in names.split()
}

SCALES = {
    word: exponent
    for exponent, words in {
        2: "hundred hundert",
        3: "thousand k K tausend tsd mille mil",
        5: "lakh lakhs",
        6: "million millions mn mln mio Mio Millionen millón millones milione milioni milhão milhões",
        7: "crore crores",
        9: "billion billions bn Mrd Milliarde Milliarden milliard milliards miliardi miljard",
        12: "trillion trillions tn",
    }.items()
    for word in words.split()
}
MONEY_SCALES = SCALES | {"m": 6, "M": 6, "b": 9, "B": 9}

CURRENCIES: dict[str, str] = {
    word: code
    for code, words in {
        "usd": "$ US$ USD dollar dollars Dollar dólar dólares",
        "eur": "€ EUR euro euros Euro Euros",
        "gbp": "£ GBP sterling",
        "jpy": "¥ JPY yen Yen",
        "cad": "C$ CAD",
        "aud": "A$ AUD",
        "nzd": "NZ$ NZD",
        "inr": "₹ INR rupee rupees",
        "chf": "CHF Franken francs franc",
        "cny": "CNY RMB yuan",
        "rub": "₽ RUB rouble roubles ruble rubles",
        "krw": "₩ KRW won",
        "try": "₺ TRY lira liras",
        "uah": "₴ UAH",
        "sek": "SEK",
        "nok": "NOK",
        "dkk": "DKK",
        "pln": "PLN zloty",
        "czk": "CZK",
        "brl": "BRL reais",
        "mxn": "MXN pesos peso",
        "zar": "ZAR",
    }.items()
    for word in words.split()
}
PERCENT = frozenset(("%", "percent", "pct", "Prozent"))

UNITS: dict[str, tuple[str, Decimal]] = {
    word: (unit, Decimal(factor))
    for unit, factors in {
        "m": {
            "0.001": "mm millimetre millimetres millimeter millimeters",
            "0.01": "cm centimetre centimetres centimeter centimeters Zentimeter centimètres centímetros",
            "1": "m metre metres meter meters Meter Metern mètre mètres metro metros",
            "1000": "km kilometre kilometres kilometer kilometers Kilometer Kilometern kilomètre kilomètres kilómetro"
            " kilómetros",
        },
        "mi": {"1": "mi mile miles Meilen milles millas"},
        "ft": {"1": "ft foot feet pieds pies"},
        "inch": {"1": "inch inches"},
        "yd": {"1": "yard yards"},
        "g": {
            "0.000001": "µg μg mcg microgram micrograms",
            "0.001": "mg milligram milligrams milligramme milligrammes miligramos",
            "1": "g gram grams Gramm grammes gramos",
            "1000": "kg kilogram kilograms kilo kilos Kilogramm kilogrammes kilogramos",
            "1000000": "tonne tonnes Tonne Tonnen toneladas",
        },
        "ton": {"1": "ton tons"},
        "lb": {"1": "lb lbs"},
        "pound": {"1": "pound pounds Pfund livre livres libra libras"},
        "oz": {"1": "oz ounce ounces"},
        "l": {
            "0.001": "ml mL millilitre millilitres milliliter milliliters Milliliter mililitros",
            "1": "l L litre litres liter liters Liter litros",
        },
        "s": {
            "0.001": "ms millisecond milliseconds Millisekunden millisecondes milisegundos",
            "1": "s sec secs second seconds Sekunde Sekunden seconde secondes segundo segundos",
            "60": "min mins minute minutes Minute Minuten minuto minutos",
            "3600": "h hr hrs hour hours Stunde Stunden heure heures hora horas",
            "86400": "day days Tag Tage Tagen jour jours día días",
            "604800": "week weeks Woche Wochen semaine semaines semana semanas",
        },
        "month": {
            "1": "month months Monat Monate Monaten mois mes meses",
            "12": "year years yr yrs Jahr Jahre Jahren an ans année années año años",
        },
        "byte": {
            "1": "byte bytes",
            "1000": "kB KB kilobyte kilobytes",
            "1000000": "MB megabyte megabytes",
            "1000000000": "GB gigabyte gigabytes",
            "1000000000000": "TB terabyte terabytes",
            "1000000000000000": "PB",
            "1024": "KiB",
            "1048576": "MiB",
            "1073741824": "GiB",
        },
        "hz": {"1": "Hz", "1000": "kHz", "1000000": "MHz", "1000000000": "GHz"},
        "w": {"1": "W watt watts Watt", "1000": "kW", "1000000": "MW megawatts", "1000000000": "GW gigawatts"},
        "wh": {"1000": "kWh", "1000000": "MWh", "1000000000": "GWh"},
        "v": {"1": "V volt volts Volt"},
        "celsius": {"1": "°C ºC"},
        "fahrenheit": {"1": "°F ºF"},
        "degree": {"1": "° degree degrees Grad degrés grados"},
        "km/h": {"1": "km/h kmh kph"},
        "mph": {"1": "mph"},
        "m/s": {"1": "m/s"},
        "m²": {"1": "m²", "1000000": "km²"},
        "m³": {"1": "m³"},
        "acre": {"1": "acre acres"},
        "hectare": {"1": "ha hectare hectares Hektar"},
    }.items()
    for factor, words in factors.items()
    for word in words.split()
}

TENS = {
    w: 10 * n for n, w in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
SMALL = {
    word: number
    for listing in (
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
        " eighteen nineteen",
        "eins zwei drei vier fünf sechs sieben acht neun zehn - zwölf",
        "- deux trois quatre cinq six sept huit neuf dix onze douze",
        "- dos tres cuatro cinco seis siete ocho nueve diez - doce",  # "once" is an English word
    )
    for number, word in enumerate(listing.split(), 1)
    if word != "-"
}
