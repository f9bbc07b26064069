//! Where a memory comes from, how far that is trusted, and who may read it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Invalid, Role};

const MAX_REF_BYTES: usize = 1024;
const MAX_IMPORTER_BYTES: usize = 64;
const MAX_READERS: usize = 64;
const MAX_READER_BYTES: usize = 256;

/// Where a memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A person set it down.
    Manual,
    /// A document says so.
    Document,
    /// Fetched just now.
    LiveFetch,
    /// The kernel drew it from several memories.
    Consolidation,
    /// Brought over from another memory system.
    SwapImport,
    /// Somebody said so to an agent.
    #[default]
    Conversation,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 6] = [
        Self::Manual,
        Self::Document,
        Self::LiveFetch,
        Self::Consolidation,
        Self::SwapImport,
        Self::Conversation,
    ];

    /// Its rank in the trust lattice.
    pub fn trust(self) -> i16 {
        match self {
            Self::Manual => 50,
            Self::Document | Self::LiveFetch => 40,
            Self::Consolidation => 30,
            Self::SwapImport => 20,
            Self::Conversation => 10,
        }
    }

    /// The name as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Document => "document",
            Self::LiveFetch => "live-fetch",
            Self::Consolidation => "consolidation",
            Self::SwapImport => "swap-import",
            Self::Conversation => "conversation",
        }
    }

    /// Whether a caller of this role may say that a memory comes from here. An agent's word
    /// is conversation: else it could raise its own rank.
    pub fn may_be_claimed_by(self, role: Role) -> bool {
        match self {
            Self::Conversation => true,
            Self::Consolidation => false,
            _ => matches!(role, Role::Member | Role::Admin | Role::Owner),
        }
    }
}

impl std::str::FromStr for Source {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|source| source.as_str() == name);
        found.ok_or_else(|| {
            let problem = "is not one of manual, document, live-fetch, consolidation, \
                           swap-import, conversation";
            Invalid::new("provenance.source", problem)
        })
    }
}

/// Who may read what came from a source; everybody in scope when both are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceAccess {
    /// Actors, such as `user:dana`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub principals: Vec<String>,
    /// Groups that a key may be in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

impl SourceAccess {
    /// The readers as the store has them, sorted; nothing when everybody in scope may read.
    pub fn readers(&self) -> Option<Vec<String>> {
        let principals = self.principals.iter().map(|name| principal_reader(name));
        let groups = self.groups.iter().map(|name| group_reader(name));
        let mut readers: Vec<String> = principals.chain(groups).collect();
        readers.sort_unstable();
        readers.dedup();
        (!readers.is_empty()).then_some(readers)
    }

    /// What the store has, read back.
    pub fn of_readers(readers: &[String]) -> Self {
        let named = |prefix: &str| {
            let names = readers.iter().filter_map(|one| one.strip_prefix(prefix));
            names.map(str::to_owned).collect()
        };
        Self {
            principals: named(PRINCIPAL),
            groups: named(GROUP),
        }
    }

    fn is_open(&self) -> bool {
        self.principals.is_empty() && self.groups.is_empty()
    }
}

/// A list that is there and names nobody was meant to close, and would open.
fn somebody<'de, D: Deserializer<'de>>(from: D) -> Result<SourceAccess, D::Error> {
    let access = SourceAccess::deserialize(from)?;
    if access.is_open() {
        let problem = "names nobody; leave it out for everybody in scope";
        return Err(D::Error::custom(problem));
    }
    Ok(access)
}

// No namespace begins with a slash, so neither can be taken for one.
const PRINCIPAL: &str = "/principal/";
const GROUP: &str = "/group/";

/// How the store names an actor among the readers of a memory.
pub fn principal_reader(actor: &str) -> String {
    format!("{PRINCIPAL}{actor}")
}

/// How the store names a group among the readers of a memory.
pub fn group_reader(group: &str) -> String {
    format!("{GROUP}{group}")
}

/// What a writer says of where a memory comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    /// Where it comes from; conversation if absent.
    #[serde(default)]
    pub source: Source,
    /// The document's path, the episode's id: at most 1 KiB.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What brought it, such as `markdown/1`: at most 64 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importer: Option<String>,
    /// Who may read it; everybody in scope if absent.
    #[serde(
        default,
        deserialize_with = "somebody",
        skip_serializing_if = "SourceAccess::is_open"
    )]
    pub source_access: SourceAccess,
}

impl Provenance {
    /// Checks the sizes and that the role may claim the source.
    ///
    /// # Errors
    /// Names the first field at fault.
    pub fn check(&self, role: Role) -> Result<(), Invalid> {
        if !self.source.may_be_claimed_by(role) {
            let problem = format!(
                "a key of the role {role} may not claim {}",
                self.source.as_str()
            );
            return Err(Invalid::new("provenance.source", problem));
        }
        check_text("provenance.ref", self.reference.as_deref(), MAX_REF_BYTES)?;
        let importer = self.importer.as_deref();
        check_text("provenance.importer", importer, MAX_IMPORTER_BYTES)?;
        let access = &self.source_access;
        let lists = [
            ("principals", &access.principals),
            ("groups", &access.groups),
        ];
        for (list, names) in lists {
            let field = format!("provenance.sourceAccess.{list}");
            if names.len() > MAX_READERS {
                let problem = format!("names more than {MAX_READERS}");
                return Err(Invalid::new(field, problem));
            }
            for name in names {
                check_text(&field, Some(name), MAX_READER_BYTES)?;
            }
        }
        Ok(())
    }
}

/// Present text is neither blank nor too long, and holds no control characters.
pub(crate) fn check_text(field: &str, text: Option<&str>, max: usize) -> Result<(), Invalid> {
    let Some(text) = text else { return Ok(()) };
    if text.trim().is_empty() || text.len() > max || text.chars().any(char::is_control) {
        let problem = format!("must be 1 to {max} bytes without control characters");
        return Err(Invalid::new(field, problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_claims_conversation_only() {
        for source in Source::ALL {
            let own = Source::Consolidation;
            let conversation = source == Source::Conversation;
            assert_eq!(source.may_be_claimed_by(Role::Agent), conversation);
            assert_eq!(source.may_be_claimed_by(Role::Member), source != own);
            assert_eq!(source.as_str().parse::<Source>(), Ok(source));
        }
    }

    #[test]
    fn readers_come_back_as_they_went() {
        let access = SourceAccess {
            principals: vec!["user:dana".into()],
            groups: vec!["legal".into(), "board".into()],
        };
        let readers = access.readers().expect("some");
        assert_eq!(
            readers,
            ["/group/board", "/group/legal", "/principal/user:dana"]
        );
        let back = SourceAccess::of_readers(&readers);
        assert_eq!(back.groups, ["board", "legal"]);
        assert_eq!(back.principals, ["user:dana"]);
        assert_eq!(SourceAccess::default().readers(), None);
    }
}
