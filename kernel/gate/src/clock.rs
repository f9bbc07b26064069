//! Moments: the kernel's clock, and those that texts name. To the microsecond, since the
//! store keeps no more and a moment must equal itself once stored.

use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

/// Now.
pub(crate) fn now() -> OffsetDateTime {
    whole_micros(OffsetDateTime::now_utc())
}

/// The moment without what is finer than a microsecond.
pub(crate) fn whole_micros(at: OffsetDateTime) -> OffsetDateTime {
    let nanos = at.nanosecond() / 1_000 * 1_000;
    at.replace_nanosecond(nanos).unwrap_or(at)
}

/// The moment that an RFC 3339 text with an offset names, in UTC; nothing for another text,
/// and for one whose year in UTC is none of 0000 to 9999, which no answer could name.
pub(crate) fn read_moment(text: &str) -> Option<OffsetDateTime> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let utc = at.checked_to_offset(UtcOffset::UTC)?;
    (0..=9999).contains(&utc.year()).then(|| whole_micros(utc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_an_offset_and_a_year_that_can_be_written() {
        let written = |text| {
            let at = read_moment(text)?;
            at.format(&Rfc3339).ok()
        };
        for (text, utc) in [
            ("2025-08-01T02:00:00+02:00", "2025-08-01T00:00:00Z"),
            (
                "2025-08-01T00:00:00.1234567Z",
                "2025-08-01T00:00:00.123456Z",
            ),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(written(text).as_deref(), Some(utc), "{text}");
        }
        for text in [
            "2025-08-01T00:00:00",
            "2025-08-01",
            "2025-13-01",
            "0000-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "10000-01-01T00:00:00Z",
            "",
        ] {
            assert_eq!(written(text), None, "{text}");
        }
    }
}
