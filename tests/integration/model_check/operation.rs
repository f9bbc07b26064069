//! What may happen in a case: calls over three namespaces, six texts, two slots, and how they
//! are made up. Whatever a call names stands as a number that is read against what is known
//! when it is made, so every part of a sequence is a sequence, and it shrinks well.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

/// A parent, its child, and a sibling of the child.
pub(super) const PLACES: usize = 3;
const SUBJECTS: [&str; 2] = ["office", "lab"];
const CITIES: [&str; 3] = ["Bern", "Basel", "Chur"];
/// Every word of every text.
pub(super) const ALL_WORDS: &str = "the office the lab is in Bern Basel Chur";
pub(super) const EVENTS: [&str; 4] = [
    "2026-01-01T00:00:00Z",
    "2026-01-02T01:00:00+01:00",
    "2026-01-03T00:00:00Z",
    // Yet to come.
    "2199-01-01T00:00:00Z",
];

/// A namespace of the case, by its number.
pub(super) type Place = usize;

/// One fact. Two of them contradict each other if they put one subject into two cities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text {
    pub(super) subject: usize,
    pub(super) city: usize,
}

impl Text {
    pub(super) fn contradicts(self, other: Self) -> bool {
        self.subject == other.subject && self.city != other.city
    }

    /// In one of two spellings, which are the same fact.
    pub(super) fn spelled(self, loud: bool) -> String {
        let (subject, city) = (SUBJECTS[self.subject], CITIES[self.city]);
        match loud {
            false => format!("The {subject} is in {city}."),
            true => format!(" THE {subject}\tis  in {city}.").to_uppercase(),
        }
    }

    /// The text and its spelling.
    pub(super) fn read(content: &str) -> Option<(Self, bool)> {
        let all = (0..SUBJECTS.len())
            .flat_map(|subject| (0..CITIES.len()).map(move |city| Self { subject, city }));
        let mut spelled = all.flat_map(|text| [(text, false), (text, true)]);
        spelled.find(|(text, loud)| text.spelled(*loud) == content)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Conversation,
    Import,
    Document,
    Fetch,
    Manual,
    /// The kernel's own: nobody may claim it.
    Consolidation,
}

impl Source {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Import => "swap-import",
            Self::Document => "document",
            Self::Fetch => "live-fetch",
            Self::Manual => "manual",
            Self::Consolidation => "consolidation",
        }
    }

    pub(super) fn rank(self) -> i16 {
        match self {
            Self::Conversation => 10,
            Self::Import => 20,
            Self::Consolidation => 30,
            Self::Document | Self::Fetch => 40,
            Self::Manual => 50,
        }
    }
}

/// One of those that are known, or, one further, a name that nobody has.
pub(super) type Pick = u8;

#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub(super) text: Text,
    pub(super) loud: bool,
    pub(super) source: Source,
    /// One of [`EVENTS`].
    pub(super) event: Option<usize>,
    pub(super) slot: Option<u8>,
    pub(super) supersedes: Option<Pick>,
    pub(super) document: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Reject,
    Both,
    Undo,
    /// Nobody's: a higher rank said again what was put aside.
    Retold,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Both => "both",
            Self::Undo => "undo",
            Self::Retold => "retold",
        }
    }

    pub(super) fn read(name: &str) -> Option<Self> {
        let all = [
            Self::Accept,
            Self::Reject,
            Self::Both,
            Self::Undo,
            Self::Retold,
        ];
        all.into_iter().find(|verdict| verdict.name() == name)
    }
}

/// A moment at which something begins or ends, or a microsecond beside it.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    pub(super) pick: Pick,
    pub(super) beside: i64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Write(Write),
    Resolve(Pick, Verdict),
    Forget(Pick),
    ForgetDocument(u8),
    ForgetEverything,
    Search(Option<When>),
    Read(Pick, Option<When>),
    History(Pick),
    Disputes { all: bool },
}

impl What {
    /// Whether anything is another afterwards.
    pub(super) fn changes(self) -> bool {
        !matches!(
            self,
            Self::Search(_) | Self::Read(..) | Self::History(_) | Self::Disputes { .. }
        )
    }
}

/// A call, and from which namespace it is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) by: Place,
    pub(super) what: What,
}

/// What becomes of contradictions in a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Review {
    Off,
    Auto,
    /// A person decides.
    Person,
}

impl Review {
    pub(super) const ALL: [Self; 3] = [Self::Off, Self::Auto, Self::Person];

    /// The policy's word, and the namespace under which such cases live.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Person => "review",
        }
    }
}

/// Calls one after the other.
pub(super) fn sequences() -> impl Strategy<Value = (Review, Vec<Operation>)> {
    let what = prop_oneof![
        12 => writes().prop_map(What::Write),
        6 => (pick(), verdicts()).prop_map(|(pick, verdict)| What::Resolve(pick, verdict)),
        1 => pick().prop_map(What::Forget),
        1 => (0..2_u8).prop_map(What::ForgetDocument),
        1 => prop::bool::weighted(0.2).prop_map(|all| match all {
            true => What::ForgetEverything,
            false => What::Search(None),
        }),
        2 => weighted(0.7, moments()).prop_map(What::Search),
        4 => (pick(), weighted(0.7, moments())).prop_map(|(pick, at)| What::Read(pick, at)),
        2 => pick().prop_map(What::History),
        2 => any::<bool>().prop_map(|all| What::Disputes { all }),
    ];
    (reviews(), vec(made_somewhere(what), 1..40))
}

/// Some calls one after the other, and then some at once.
pub(super) fn histories() -> impl Strategy<Value = (Review, Vec<Operation>, Vec<Operation>)> {
    let before = made_somewhere(prop_oneof![
        5 => writes().prop_map(What::Write),
        1 => (pick(), verdicts()).prop_map(|(pick, verdict)| What::Resolve(pick, verdict)),
    ]);
    let at_once = made_somewhere(prop_oneof![
        6 => writes().prop_map(What::Write),
        2 => (pick(), verdicts()).prop_map(|(pick, verdict)| What::Resolve(pick, verdict)),
        1 => pick().prop_map(What::Forget),
    ]);
    (reviews(), vec(before, 0..6), vec(at_once, 2..=3))
}

fn reviews() -> impl Strategy<Value = Review> {
    prop_oneof![
        2 => Just(Review::Off),
        2 => Just(Review::Auto),
        1 => Just(Review::Person),
    ]
}

/// Mostly from the child: that is where things meet.
fn made_somewhere(what: impl Strategy<Value = What>) -> impl Strategy<Value = Operation> {
    let by = prop_oneof![6 => Just(1), 2 => Just(0), 1 => Just(2)];
    (by, what).prop_map(|(by, what)| Operation { by, what })
}

fn writes() -> impl Strategy<Value = Write> {
    let text = (0..SUBJECTS.len(), 0..CITIES.len());
    let place = prop_oneof![
        3 => Just((None, None)),
        3 => (0..2_u8).prop_map(|slot| (Some(slot), None)),
        3 => pick().prop_map(|target| (None, Some(target))),
        1 => prop::bool::weighted(0.1).prop_map(|both| match both {
            true => (Some(0), Some(0)),
            false => (Some(1), None),
        }),
    ];
    let sources = prop_oneof![
        10 => Just(Source::Conversation),
        10 => Just(Source::Document),
        5 => Just(Source::Fetch),
        5 => Just(Source::Manual),
        3 => Just(Source::Import),
        1 => Just(Source::Consolidation),
    ];
    let event = weighted(0.4, 0..EVENTS.len());
    let document = weighted(0.3, 0..2_u8);
    (
        text,
        prop::bool::weighted(0.2),
        sources,
        event,
        place,
        document,
    )
        .prop_map(
            |((subject, city), loud, source, event, (slot, supersedes), document)| Write {
                text: Text { subject, city },
                loud,
                source,
                event,
                slot,
                supersedes,
                document,
            },
        )
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        2 => Just(Verdict::Accept),
        1 => Just(Verdict::Reject),
        1 => Just(Verdict::Both),
        4 => Just(Verdict::Undo),
    ]
}

fn moments() -> impl Strategy<Value = When> {
    (pick(), -1..=1_i64).prop_map(|(pick, beside)| When { pick, beside })
}

fn pick() -> impl Strategy<Value = Pick> {
    any::<u8>()
}
