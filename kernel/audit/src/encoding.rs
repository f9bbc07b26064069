//! How bytes and instants stand in JSON. Each has one spelling, and any other is refused, so that two
//! different files never mean the same rows by a quirk of spelling.
//!
//! Must not live here: the shape of any record.

/// Bytes as lower-case hex.
pub(crate) mod hex_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&hex::encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        decode(&text).ok_or_else(|| D::Error::custom("expected lower-case hex"))
    }

    pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
        hex::decode(text)
            .ok()
            .filter(|bytes| hex::encode(bytes) == text)
    }
}

/// A SHA-256 digest as 64 lower-case hex digits.
pub(crate) mod hash_hex {
    use serde::{Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(hash: &[u8; 32], s: S) -> Result<S::Ok, S::Error> {
        super::hex_bytes::serialize(hash, s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; 32], D::Error> {
        let bytes = super::hex_bytes::deserialize(d)?;
        bytes
            .try_into()
            .map_err(|_| D::Error::custom("expected 64 hex digits"))
    }
}

/// An instant as `crate::timestamp` writes it.
pub(crate) mod micros {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use time::{OffsetDateTime, format_description::well_known::Rfc3339};

    use crate::canonical::timestamp;

    pub(crate) fn serialize<S: Serializer>(ts: &OffsetDateTime, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&timestamp(*ts))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<OffsetDateTime, D::Error> {
        let text = String::deserialize(d)?;
        OffsetDateTime::parse(&text, &Rfc3339)
            .ok()
            .filter(|ts| timestamp(*ts) == text)
            .ok_or_else(|| {
                D::Error::custom("expected RFC 3339 in UTC with six fractional digits and Z")
            })
    }
}

/// Stored canonical bytes as the text they are; as `{"hex":"…"}` if they were damaged and are no UTF-8.
pub(crate) mod text_or_hex {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Hex {
        hex: String,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrHex {
        Text(String),
        Hex(Hex),
    }

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => s.serialize_str(text),
            Err(_) => Hex {
                hex: hex::encode(bytes),
            }
            .serialize(s),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        match TextOrHex::deserialize(d)? {
            TextOrHex::Text(text) => Ok(text.into_bytes()),
            TextOrHex::Hex(Hex { hex }) => super::hex_bytes::decode(&hex)
                .ok_or_else(|| D::Error::custom("expected lower-case hex")),
        }
    }
}
