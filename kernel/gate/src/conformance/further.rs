//! Checks beyond the six: their verdicts over calls that were made. Pure, as the six are.

use halofy_cartridge::{Capabilities, Limits, PlanFailure};

use super::checks::{Call, TOP, verdict};
use super::report::Check;

/// Memories of the corpus that `limits-respected` runs over, each of some 2,000 characters.
pub(super) const MANY: usize = 1_000;
/// What it asks for, beside nothing and one.
pub(super) const MANY_K: u32 = 200;
const UNICODE_NEEDED: usize = 6;

/// Texts that break whoever takes bytes or UTF-16 units for characters, or letters for ASCII.
pub(super) const SCRIPTS: [&str; 8] = [
    "Η γάτα της Ευρυδίκης κοιμάται στο περβάζι κάθε μεσημέρι",
    "灯台守の田中さんは毎朝六時に霧笛を点検する",
    "حارس المنارة يصلح المصباح كل مساء قبل الغروب",
    "नाविक हर सुबह पुराने कम्पास की जाँच करता है",
    "Смотритель маяка меняет лампу каждую пятницу",
    "naïve cafe\u{301} ﬁle Ｗｉｄｅ STRASSE İstanbul \u{212a}elvin",
    "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🇦🇶 \u{1F9FF} 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈",
    "\u{202e}right to left\u{202c} zero\u{200b}width \u{feff}mark nul\u{0}byte",
];

/// The largest use of any call stays within the limits, and no more than `k` is answered.
pub(super) fn limits_respected(calls: &[Call], limits: &Limits) -> Check {
    let most = |of: fn(&Call) -> u64| calls.iter().map(of).max().unwrap_or(0);
    let host_calls = most(|call| call.stats().host_calls);
    let rows = most(|call| call.stats().rows);
    let bytes = most(|call| call.stats().bytes);
    let over_k: u64 = calls.iter().map(|call| call.stats().over_k).sum();
    let mut detail = format!(
        "over {MANY} long memories, k 0 to {MANY_K}: at most {host_calls}/{} host calls, \
         {rows}/{} rows, {bytes}/{} bytes",
        limits.host_calls, limits.rows, limits.row_bytes
    );
    if over_k > 0 {
        detail += &format!("; {over_k} results beyond k");
    }
    let within =
        host_calls <= limits.host_calls && rows <= limits.rows && bytes <= limits.row_bytes;
    verdict("limits-respected", within && over_k == 0, detail, calls)
}

/// No row is named twice in one answer.
pub(super) fn no_duplicate_refs<'c>(calls: impl Iterator<Item = &'c Call> + Clone) -> Check {
    let repeated: u64 = calls.clone().map(|c| c.stats().dropped_duplicate).sum();
    let detail = format!(
        "{repeated} refs repeated in {} answers",
        calls.clone().count()
    );
    verdict("no-duplicate-refs", repeated == 0, detail, calls)
}

/// Nothing visible is nothing answered, and no fault.
pub(super) fn empty_corpus(calls: &[Call]) -> Check {
    let invented: u64 = calls
        .iter()
        .map(|call| call.hits().len() as u64 + call.stats().violations())
        .sum();
    let detail = format!(
        "{invented} results from no memories in {} queries",
        calls.len()
    );
    verdict("empty-corpus", invented == 0, detail, calls)
}

/// Asked for each of [`SCRIPTS`] by its own text.
pub(super) fn unicode(calls: &[Call]) -> Check {
    let found = |(call, text): &(&Call, &&str)| {
        let mut top = call.hits().iter().take(TOP);
        top.any(|hit| &*hit.row.content == **text)
    };
    let found = calls.iter().zip(&SCRIPTS).filter(found).count();
    let detail = format!(
        "{found}/{} texts in other scripts found by themselves in top-{TOP} \
         (need >= {UNICODE_NEEDED})",
        SCRIPTS.len()
    );
    verdict("unicode", found >= UNICODE_NEEDED, detail, calls)
}

/// What it declares is what it does: `graph_calls` uses of the entity graph in `calls` calls.
pub(super) fn honest_capabilities(
    declared: &Result<Capabilities, PlanFailure>,
    graph_calls: u64,
    calls: usize,
) -> Check {
    let name = "honest-capabilities";
    let declared = match declared {
        Ok(declared) => declared,
        Err(failure) => {
            return Check::new(name, false, &format!("capabilities() failed: {failure}"));
        }
    };
    let used = format!("entity-facts was called {graph_calls} times in {calls} plan() calls");
    let lie = match (declared.graph, graph_calls) {
        (true, 0) => Some("graph: true, yet "),
        (false, 1..) => Some("graph: false, yet "),
        _ if declared.streaming => Some("streaming: true, which no contract has; "),
        _ => None,
    };
    let honest = format!("graph: {}, ", declared.graph);
    let detail = format!("{}{used}", lie.unwrap_or(&honest));
    Check::new(name, lie.is_none(), &detail)
}

#[cfg(test)]
#[path = "further_tests.rs"]
mod tests;
