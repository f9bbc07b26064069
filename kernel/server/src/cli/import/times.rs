//! Times as other systems write them, as the write path takes them: RFC 3339 with an
//! offset. What names no offset is taken as UTC and said to be.

use serde_json::Value;
use time::format_description::well_known::{Iso8601, Rfc3339};
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time};

/// A time that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// RFC 3339 with an offset.
    pub(super) text: String,
    /// Whether no offset was named.
    pub(super) assumed_utc: bool,
}

/// Reads a foreign time: a text in a form of ISO 8601, or seconds since 1970 as a
/// number. `Ok(None)` if there is none.
///
/// # Errors
/// Says what cannot be read.
pub(super) fn foreign(value: Option<&Value>) -> Result<Option<Read>, String> {
    let (at, assumed_utc) = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => {
            parse(text.trim()).ok_or_else(|| format!("{text:?} is no time that can be read"))?
        }
        Some(Value::Number(number)) => {
            let seconds = number.as_i64().ok_or("is no whole number of seconds")?;
            let at = OffsetDateTime::from_unix_timestamp(seconds);
            (at.map_err(|_| format!("{seconds} is out of range"))?, false)
        }
        Some(_) => return Err("is neither a text nor a number".to_owned()),
    };
    // The zero of Go's clock, which Zep writes where there is no time.
    if at.year() == 1 {
        return Ok(None);
    }
    let text = at
        .format(&Rfc3339)
        .map_err(|_| "is a year that RFC 3339 cannot write".to_owned())?;
    Ok(Some(Read { text, assumed_utc }))
}

fn parse(text: &str) -> Option<(OffsetDateTime, bool)> {
    // Graph databases add the zone's name: 2024-07-20T01:30:36Z[UTC].
    let text = text.split('[').next().unwrap_or(text);
    // Python's `str(datetime)` has a space there.
    let joined = match text.split_once(' ') {
        Some((date, time)) => format!("{date}T{}", time.replace(' ', "")),
        None => text.to_owned(),
    };
    if let Ok(at) = OffsetDateTime::parse(&joined, &Rfc3339) {
        return Some((at, false));
    }
    if let Ok(at) = OffsetDateTime::parse(&joined, &Iso8601::PARSING) {
        return Some((at, false));
    }
    if let Ok(at) = PrimitiveDateTime::parse(&joined, &Iso8601::PARSING) {
        return Some((at.assume_utc(), true));
    }
    let date = Date::parse(&joined, &Iso8601::PARSING).ok()?;
    Some((date.with_time(Time::MIDNIGHT).assume_utc(), true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_form_is_read_with_its_own_offset_or_as_utc_and_said_so() {
        for (given, text, assumed_utc) in [
            (
                json!("2024-07-20T01:30:36.275141-07:00"),
                "2024-07-20T01:30:36.275141-07:00",
                false,
            ),
            (
                json!("2024-07-20 01:30:36+00:00"),
                "2024-07-20T01:30:36Z",
                false,
            ),
            (
                json!("2024-07-20T01:30:36+0200"),
                "2024-07-20T01:30:36+02:00",
                false,
            ),
            (
                json!("2024-07-20T01:30:36Z[UTC]"),
                "2024-07-20T01:30:36Z",
                false,
            ),
            (
                json!("2024-07-20T01:30:36.5"),
                "2024-07-20T01:30:36.5Z",
                true,
            ),
            (json!("2024-07-20 01:30"), "2024-07-20T01:30:00Z", true),
            (json!("2024-07-20"), "2024-07-20T00:00:00Z", true),
            (json!(1_721_439_036), "2024-07-20T01:30:36Z", false),
        ] {
            let text = text.to_owned();
            let read = foreign(Some(&given));
            assert_eq!(read, Ok(Some(Read { text, assumed_utc })), "{given}");
        }
    }

    #[test]
    fn no_time_is_none_and_nonsense_is_an_error() {
        for none in [json!(null), json!(""), json!("0001-01-01T00:00:00Z")] {
            assert_eq!(foreign(Some(&none)), Ok(None), "{none}");
        }
        for bad in [
            json!("yesterday"),
            json!("2024-13-01"),
            json!(1.5),
            json!([]),
        ] {
            assert!(foreign(Some(&bad)).is_err(), "{bad}");
        }
    }
}
