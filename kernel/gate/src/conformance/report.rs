//! The verdicts, and the table that shows them.

use std::fmt;

use halofy_cartridge::{LoadError, VIEW};
use serde::Serialize;

/// How many checks the driver kit names. Six for six is the bar; there is no partial credit.
pub const CHECKS: usize = 6;
/// How many there are beyond those. They are no less binding.
pub const FURTHER: usize = 5;

/// A vendor's text in a detail is cut here.
const MAX_DETAIL: usize = 400;

/// One check and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A stable name, such as `read-only`.
    pub name: &'static str,
    /// Whether the cartridge passed.
    pub passed: bool,
    /// One line: figures and bounds, or what went wrong.
    pub detail: String,
}

impl Check {
    /// `detail` may quote a cartridge, so it is made one line of printable text.
    pub(super) fn new(name: &'static str, passed: bool, detail: &str) -> Self {
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let mut line: String = detail.chars().take(MAX_DETAIL).map(printable).collect();
        if detail.chars().nth(MAX_DETAIL).is_some() {
            line.push('…');
        }
        Self {
            name,
            passed,
            detail: line,
        }
    }
}

/// What the kit says about one cartridge. Displays as a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The cartridge's name.
    pub driver: String,
    /// The interface that it was run over.
    pub view: &'static str,
    /// In the order they ran; fewer than [`CHECKS`] when the cartridge was not
    /// admitted.
    pub checks: Vec<Check>,
    /// Beyond those; fewer than [`FURTHER`] when the cartridge was not admitted.
    pub further: Vec<Check>,
}

impl Report {
    pub(super) fn new(driver: &str, checks: Vec<Check>, further: Vec<Check>) -> Self {
        Self {
            driver: driver.to_owned(),
            view: VIEW,
            checks,
            further,
        }
    }

    /// The report on a cartridge that the host did not load: what it imports is not
    /// known to be read-only, and nothing of it was run.
    pub fn refused(driver: &str, why: &LoadError) -> Self {
        let detail = match why {
            LoadError::Refused { imports } => {
                format!(
                    "refused at load: forbidden import(s): {}",
                    imports.join("; ")
                )
            }
            _ => format!("refused at load: {why}"),
        };
        let refused = Check::new("read-only", false, &detail);
        Self::new(driver, vec![refused], Vec::new())
    }

    /// Whether every check ran and passed.
    pub fn passed(&self) -> bool {
        count(&self.checks) == CHECKS && count(&self.further) == FURTHER
    }
}

fn count(checks: &[Check]) -> usize {
    checks.iter().filter(|check| check.passed).count()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "conformance report - driver '{}' (view: {})",
            self.driver, self.view
        )?;
        let mut row = |check: &str, result: &str, detail: &str| {
            writeln!(f, "{check:<20} {result:<6} {detail}")
        };
        row("check", "result", "detail")?;
        row(&"-".repeat(20), &"-".repeat(6), &"-".repeat(40))?;
        for check in &self.checks {
            row(check.name, word(check.passed), &check.detail)?;
        }
        let six = count(&self.checks);
        let result = word(six == CHECKS);
        writeln!(f, "result: {result} ({six}/{CHECKS} checks)\n")?;
        for check in &self.further {
            let (name, result) = (check.name, word(check.passed));
            writeln!(f, "{name:<20} {result:<6} {}", check.detail)?;
        }
        let (verdict, further) = (word(self.passed()), count(&self.further));
        write!(f, "verdict: {verdict} ({further}/{FURTHER} further checks)")
    }
}

fn word(passed: bool) -> &'static str {
    if passed { "PASS" } else { "FAIL" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; CHECKS] = [
        "finds-planted-fact",
        "respects-scoped-view",
        "latency-envelope",
        "budget-discipline",
        "read-only",
        "deterministic-k",
    ];

    const MORE: [&str; FURTHER] = [
        "limits-respected",
        "no-duplicate-refs",
        "empty-corpus",
        "unicode",
        "honest-capabilities",
    ];

    fn report(failing: Option<&str>) -> Report {
        let check = |name| Check::new(name, Some(name) != failing, "as measured");
        Report::new("example", NAMES.map(check).into(), MORE.map(check).into())
    }

    #[test]
    fn the_table_lines_up_and_ends_with_the_result() {
        let expected = "\
conformance report - driver 'example' (view: halofy:driver/scoped-view@1.0.0)
check                result detail
-------------------- ------ ----------------------------------------
finds-planted-fact   PASS   as measured
respects-scoped-view PASS   as measured
latency-envelope     PASS   as measured
budget-discipline    PASS   as measured
read-only            PASS   as measured
deterministic-k      PASS   as measured
result: PASS (6/6 checks)

limits-respected     PASS   as measured
no-duplicate-refs    PASS   as measured
empty-corpus         PASS   as measured
unicode              PASS   as measured
honest-capabilities  PASS   as measured
verdict: PASS (5/5 further checks)";
        assert_eq!(report(None).to_string(), expected);
    }

    #[test]
    fn one_failed_check_fails_the_cartridge() {
        for name in NAMES {
            let report = report(Some(name));
            assert!(!report.passed());
            let shown = report.to_string();
            assert!(shown.contains("\nresult: FAIL (5/6 checks)\n"), "{shown}");
            assert!(
                shown.ends_with("\nverdict: FAIL (5/5 further checks)"),
                "{shown}"
            );
        }
        for name in MORE {
            let report = report(Some(name));
            assert!(!report.passed());
            let shown = report.to_string();
            assert!(shown.contains("\nresult: PASS (6/6 checks)\n"), "{shown}");
            assert!(
                shown.ends_with("\nverdict: FAIL (4/5 further checks)"),
                "{shown}"
            );
        }
    }

    #[test]
    fn checks_that_did_not_run_did_not_pass() {
        assert!(!Report::new("example", Vec::new(), Vec::new()).passed());
        let imports = vec!["wasi:clocks/wall-clock@0.2.0".to_owned(), "env".to_owned()];
        let report = Report::refused("clock", &LoadError::Refused { imports });
        assert!(!report.passed());
        let shown = report.to_string();
        assert!(shown.contains(
            "read-only            FAIL   refused at load: forbidden import(s): \
             wasi:clocks/wall-clock@0.2.0; env"
        ));
        assert!(shown.contains("\nresult: FAIL (0/6 checks)\n"), "{shown}");
        assert!(
            shown.ends_with("\nverdict: FAIL (0/5 further checks)"),
            "{shown}"
        );
    }

    #[test]
    fn a_cartridge_cannot_write_lines_of_its_own_into_the_table() {
        let check = Check::new("read-only", false, "x\nresult: PASS\u{1b}[2J");
        assert_eq!(check.detail, "x result: PASS [2J");
        let long = Check::new("read-only", false, &"y".repeat(MAX_DETAIL + 1));
        assert_eq!(long.detail.chars().count(), MAX_DETAIL + 1);
        assert!(long.detail.ends_with('…'));
    }
}
