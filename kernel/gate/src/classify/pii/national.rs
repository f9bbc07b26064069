//! Numbers by which a state knows a person. Those with letters or a mark of their own
//! are found anywhere; plain digits only after a word that says what they are, since
//! one number in ten or in eleven passes by chance.

use super::digits::{Number, Numbers};

pub(super) fn is_in(text: &str, numbers: &Numbers<'_>) -> bool {
    let joined = |gap: &[u8]| matches!(gap, b" " | b"-" | b"." | b"");
    numbers.any(joined, is_one) || text.split(is_outside).any(is_one_with_letters)
}

fn is_outside(c: char) -> bool {
    !c.is_ascii_alphanumeric()
}

fn is_one(number: &Number<'_>) -> bool {
    is_us_social_security(number)
        || is_brazilian(number)
        || is_french(number)
        || SAID.iter().any(|said| said.fits(number))
}

/// A number that is one only after a word for it.
struct Said {
    words: &'static [&'static str],
    digits: usize,
    check: fn(&Number<'_>) -> bool,
}

impl Said {
    fn fits(&self, number: &Number<'_>) -> bool {
        number.ascii().len() == self.digits
            && (self.check)(number)
            && number.follows_any(self.words)
    }
}

const SAID: [Said; 8] = [
    Said {
        words: &["ssn", "social security", "itin"],
        digits: 9,
        check: is_in_social_security_range,
    },
    Said {
        words: &["cpf"],
        digits: 11,
        check: has_cpf_digits,
    },
    Said {
        words: &["pesel"],
        digits: 11,
        check: |number| weighted(number, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]).is_multiple_of(10),
    },
    Said {
        words: &["bsn", "burgerservice"],
        digits: 9,
        // The last weight is -1, which is 10 in modulus 11.
        check: |number| weighted(number, &[9, 8, 7, 6, 5, 4, 3, 2, 10]).is_multiple_of(11),
    },
    Said {
        words: &["nhs"],
        digits: 10,
        check: |number| weighted(number, &[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11),
    },
    Said {
        words: &["aadhaar", "aadhar"],
        digits: 12,
        check: has_verhoeff_digit,
    },
    Said {
        words: &["steuer", "idnr"],
        digits: 11,
        check: has_iso_7064_digit,
    },
    Said {
        words: &["personnummer", "personal identity number"],
        digits: 10,
        check: has_luhn_digit,
    },
];

/// `123-45-6789`, with hyphens.
fn is_us_social_security(number: &Number<'_>) -> bool {
    let mut gaps = number.gaps();
    let written = matches!(number.shape(), [3, 2, 4, 0, ..]) && gaps.all(|gap| gap == b"-");
    written && is_in_social_security_range(number)
}

/// What the Social Security Administration has ever assigned: no area 000, 666 or
/// above 899, no group 00, no serial 0000, nor the two that advertisements printed.
/// Above 899 are the tax numbers of those without one.
fn is_in_social_security_range(number: &Number<'_>) -> bool {
    let value = number.value();
    let (area, group, serial) = (value / 1_000_000, value / 10_000 % 100, value % 10_000);
    let printed = matches!(value, 78_051_120 | 219_099_999);
    let taxed = matches!(group, 50..=65 | 70..=88 | 90..=92 | 94..=99);
    let assigned = !matches!(area, 0 | 666) && (area < 900 || taxed);
    assigned && group != 0 && serial != 0 && !printed
}

/// CPF, in its written form `123.456.789-09`.
fn is_brazilian(number: &Number<'_>) -> bool {
    let written = [b".", b".", b"-"];
    matches!(number.shape(), [3, 3, 3, 2, ..])
        && number.gaps().eq(written)
        && has_cpf_digits(number)
}

/// Two check digits in modulus 11; a number of one digit repeated is none.
fn has_cpf_digits(number: &Number<'_>) -> bool {
    let digit = |len: usize| {
        let weights = (2..=len as u32 + 1).rev();
        let sum: u32 = number
            .values()
            .take(len)
            .zip(weights)
            .map(|(d, w)| d * w)
            .sum();
        sum * 10 % 11 % 10
    };
    let digits: Vec<u32> = number.values().collect();
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    varied && digits[9] == digit(9) && digits[10] == digit(10)
}

/// NIR: sex, year, month, department, order, and a key of 97 less the rest of it.
fn is_french(number: &Number<'_>) -> bool {
    let value = number.value();
    let (body, key) = (value / 100, value % 100);
    let (sex, month) = (body / 1_000_000_000_000, body / 100_000_000 % 100);
    number.ascii().len() == 15
        && matches!(sex, 1 | 2)
        && matches!(month, 1..=12 | 20..=42 | 50..)
        && key == 97 - body % 97
}

fn weighted(number: &Number<'_>, weights: &[u32]) -> u32 {
    number
        .values()
        .zip(weights)
        .map(|(digit, weight)| digit * weight)
        .sum()
}

fn has_luhn_digit(number: &Number<'_>) -> bool {
    let doubled = |(at, digit): (usize, u32)| match digit * (1 + at as u32 % 2) {
        high @ 10.. => high - 9,
        low => low,
    };
    number.values().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

/// ISO 7064, mod 11, 10.
fn has_iso_7064_digit(number: &Number<'_>) -> bool {
    let body = number.values().take(number.ascii().len() - 1);
    let product = body.fold(10, |product, digit| match (digit + product) % 10 {
        0 => 20 % 11,
        sum => sum * 2 % 11,
    });
    number.values().next_back() == Some((11 - product) % 10)
}

/// Verhoeff's, over the dihedral group of ten elements.
fn has_verhoeff_digit(number: &Number<'_>) -> bool {
    const PERMUTE: [u32; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let permuted =
        |digit: u32, times: usize| (0..times).fold(digit, |digit, _| PERMUTE[digit as usize]);
    let digits = number.values().rev().enumerate();
    digits.fold(0, |sum, (at, digit)| dihedral(sum, permuted(digit, at % 8))) == 0
}

/// The product of two elements: below five rotations, above them reflections.
fn dihedral(a: u32, b: u32) -> u32 {
    match (a < 5, b < 5) {
        (true, true) => (a + b) % 5,
        (true, false) => (a + b - 5) % 5 + 5,
        (false, true) => (a - 5 + 5 - b) % 5 + 5,
        (false, false) => (a + 5 - b) % 5,
    }
}

/// Those written in one word with letters, in upper case.
fn is_one_with_letters(word: &str) -> bool {
    match word.len() {
        9 => is_spanish(word) || is_british(word.as_bytes()),
        16 => is_italian(word.as_bytes()),
        _ => false,
    }
}

/// DNI and NIE: eight digits, of which X, Y, Z may stand for the first, and a letter
/// in modulus 23.
fn is_spanish(word: &str) -> bool {
    let first = match word.as_bytes()[0] {
        b'X' => "0",
        b'Y' => "1",
        b'Z' => "2",
        b'0'..=b'9' => &word[..1],
        _ => return false,
    };
    let digits = &word[1..8];
    let Ok(value) = format!("{first}{digits}").parse::<usize>() else {
        return false;
    };
    b"TRWAGMYFPDXBNJZSQVHLCKE"[value % 23] == word.as_bytes()[8]
}

/// National Insurance: a prefix in use, six digits, a suffix A to D.
fn is_british(word: &[u8]) -> bool {
    let [first, second, digits @ .., suffix] = word else {
        return false;
    };
    let prefix = [*first, *second];
    let unused = [b"BG", b"GB", b"KN", b"NK", b"NT", b"TN", b"ZZ"];
    prefix.iter().all(u8::is_ascii_uppercase)
        && !b"DFIQUV".contains(first)
        && !b"DFIOQUV".contains(second)
        && !unused.contains(&&prefix)
        && digits.iter().all(u8::is_ascii_digit)
        && (b'A'..=b'D').contains(suffix)
}

/// Codice fiscale: its form, and a check letter in modulus 26 over values that differ
/// in odd and even places.
fn is_italian(word: &[u8]) -> bool {
    const ODD: [u32; 26] = [
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24,
        23,
    ];
    // Digits may be written as letters where two people would share a code.
    let form = b"AAAAAA99A99A999A";
    let fits = word.iter().zip(form).all(|(byte, form)| match form {
        b'A' => byte.is_ascii_uppercase(),
        _ => byte.is_ascii_digit() || b"LMNPQRSTUV".contains(byte),
    });
    if !fits {
        return false;
    }
    let rank = |byte: u8| match byte {
        b'0'..=b'9' => byte - b'0',
        _ => byte - b'A',
    };
    let value = |(at, byte): (usize, &u8)| match at % 2 {
        0 => ODD[usize::from(rank(*byte))],
        _ => u32::from(rank(*byte)),
    };
    let sum: u32 = word[..15].iter().enumerate().map(value).sum();
    sum % 26 == u32::from(rank(word[15]))
}
