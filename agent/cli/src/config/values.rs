//! Values that are written in one way and used in another.

use std::fmt;
use std::time::Duration;

use super::server::ProtocolConfig;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// `"30m"`, `"1h 30m"`, `"180s"`.
pub(crate) mod duration {
    use super::*;
    use serde::Serializer;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }

    struct DurationVisitor;

    impl Visitor<'_> for DurationVisitor {
        type Value = Duration;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a duration with its unit, such as \"30m\" or \"180s\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
            match humantime::parse_duration(text) {
                Ok(Duration::ZERO) => Err(E::custom("a duration of zero leaves no time at all")),
                Ok(value) => Ok(value),
                Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
            }
        }
    }
}

/// The same where it may be absent.
pub(crate) mod optional_duration {
    use super::*;
    use serde::Serializer;

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => duration::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        duration::deserialize(deserializer).map(Some)
    }
}

/// A number of seconds, whole or not.
pub(crate) mod seconds {
    use super::*;
    use serde::Serializer;

    /// A day: more is a typing error, and far below where arithmetic with instants overflows.
    const MAX_SECONDS: f64 = 86_400.0;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        if value.subsec_nanos() == 0 {
            serializer.serialize_u64(value.as_secs())
        } else {
            serializer.serialize_f64(value.as_secs_f64())
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_any(SecondsVisitor)
    }

    struct SecondsVisitor;

    impl Visitor<'_> for SecondsVisitor {
        type Value = Duration;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a number of seconds above 0 and at most 86400")
        }

        fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
            // Numbers that lose precision as f64 are far above the maximum.
            self.visit_f64(seconds as f64)
        }

        fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
            self.visit_f64(seconds as f64)
        }

        fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Duration, E> {
            if seconds > 0.0 && seconds <= MAX_SECONDS {
                Ok(Duration::from_secs_f64(seconds))
            } else {
                Err(E::invalid_value(de::Unexpected::Float(seconds), &self))
            }
        }
    }
}

/// Levels as numbers or in the texts that GAIA users know: `1`, `"1"`, `"2023_level1"`, `"2023_all"`, `"1,2"`.
pub(crate) fn levels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct LevelsVisitor;

    impl<'de> Visitor<'de> for LevelsVisitor {
        type Value = Vec<u8>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("levels 1, 2 or 3, as numbers or as \"2023_level1\"")
        }

        fn visit_i64<E: de::Error>(self, level: i64) -> Result<Vec<u8>, E> {
            match u8::try_from(level) {
                Ok(level @ 1..=3) => Ok(vec![level]),
                _ => Err(E::invalid_value(de::Unexpected::Signed(level), &self)),
            }
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
            let mut levels = Vec::new();
            for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                match word.strip_prefix("2023_").unwrap_or(word) {
                    "all" => levels.extend([1, 2, 3]),
                    word => match word.strip_prefix("level").unwrap_or(word) {
                        "1" => levels.push(1),
                        "2" => levels.push(2),
                        "3" => levels.push(3),
                        _ => return Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                    },
                }
            }
            Ok(sorted(levels))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<u8>, A::Error> {
            let mut levels = Vec::new();
            while let Some(Levels(more)) = sequence.next_element()? {
                levels.extend(more);
            }
            Ok(sorted(levels))
        }
    }

    struct Levels(Vec<u8>);

    impl<'de> serde::Deserialize<'de> for Levels {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(LevelsVisitor).map(Levels)
        }
    }

    fn sorted(mut levels: Vec<u8>) -> Vec<u8> {
        levels.sort_unstable();
        levels.dedup();
        levels
    }

    deserializer.deserialize_any(LevelsVisitor)
}

pub(crate) fn levels_schema(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 3 },
                { "type": "string", "pattern": "^(2023_)?(level)?[123]$|^2023_all$" },
            ]
        }
    })
}

/// `"auto"`, `"2025"` or `2025`, `"2026"` or `2026`.
pub(crate) fn protocol<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ProtocolConfig, D::Error> {
    struct ProtocolVisitor;

    impl Visitor<'_> for ProtocolVisitor {
        type Value = ProtocolConfig;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("\"auto\", 2025 or 2026")
        }

        fn visit_i64<E: de::Error>(self, year: i64) -> Result<ProtocolConfig, E> {
            match year {
                2025 => Ok(ProtocolConfig::Era2025),
                2026 => Ok(ProtocolConfig::Era2026),
                _ => Err(E::invalid_value(de::Unexpected::Signed(year), &self)),
            }
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<ProtocolConfig, E> {
            match text {
                "auto" => Ok(ProtocolConfig::Auto),
                "2025" => Ok(ProtocolConfig::Era2025),
                "2026" => Ok(ProtocolConfig::Era2026),
                _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
            }
        }
    }

    deserializer.deserialize_any(ProtocolVisitor)
}

pub(crate) fn protocol_schema(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["auto", "2025", "2026", 2025, 2026], "default": "auto" })
}
