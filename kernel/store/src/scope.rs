//! Which rows a statement may touch: the visibility predicate, written once.
//!
//! Invariant: every read of memories goes through [`visible!`], [`visible_rows!`],
//! [`visible_then!`] or [`in_scope!`] with a [`Scope`] bound as `$1`. No other file of this crate
//! compares a namespace with a pattern.

use halofy_core::Namespace;

/// The namespaces whose rows one caller sees: its own and its ancestors.
///
/// Bound as one array, so that the rule needs no pattern matching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope(Vec<String>);

impl Scope {
    /// What a caller in `namespace` sees.
    pub fn of(namespace: &Namespace) -> Self {
        Self(namespace.visible())
    }

    pub(crate) fn namespaces(&self) -> &[String] {
        &self.0
    }
}

/// The rows of `memory_objects m` in the scope bound as `$1`, of any validity.
macro_rules! in_scope {
    () => {
        "m.namespace = any($1)"
    };
}

/// The rows of `memory_objects m` that are believed now: active and currently valid.
macro_rules! current {
    () => {
        "m.status = 'active' and m.t_valid_to is null"
    };
}

/// The rows of `memory_objects m` in the scope bound as `$1` that were believed at the
/// moment bound as `$4`: known by then, and not closed yet.
macro_rules! visible_then {
    () => {
        concat!(
            $crate::scope::in_scope!(),
            " and m.status = 'active' and m.assertion_time <= $4
              and (m.t_valid_to is null or m.t_valid_to > $4)"
        )
    };
}

/// The rows of `memory_objects m` that the scope bound as `$1` sees: in scope and
/// believed now.
macro_rules! visible {
    () => {
        concat!(in_scope!(), " and ", current!())
    };
}

/// The rows that [`visible!`] admits, as `m`, read namespace by namespace through
/// the index. To be used where the scope is small: a plan that is made without
/// knowing `$1` takes `any($1)` for most of the table.
macro_rules! visible_rows {
    () => {
        concat!(
            "unnest($1::text[]) as scope (namespace) cross join lateral (
                 select * from memory_objects m where m.namespace = scope.namespace and ",
            current!(),
            " offset 0) m"
        )
    };
}

/// A subtree, for operators: the namespace `$1`, and what lies below it by the
/// pattern `$2` of [`subtree_pattern`].
macro_rules! in_subtree {
    () => {
        r"(namespace = $1 or namespace like $2 escape '\')"
    };
}

pub(crate) use {current, in_scope, in_subtree, visible, visible_rows, visible_then};

/// The pattern that matches what lies below a namespace, and not the namespace
/// itself: its literal, escaped, and `/%`.
pub(crate) fn subtree_pattern(namespace: &Namespace) -> String {
    let mut pattern = String::with_capacity(namespace.as_str().len() + 2);
    for c in namespace.as_str().chars() {
        if matches!(c, '\\' | '%' | '_') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + "/%"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_pattern_is_an_escaped_literal_and_a_segment_boundary() {
        let pattern = |path| subtree_pattern(&Namespace::parse(path).expect("a path"));
        assert_eq!(pattern("acme/eng"), "acme/eng/%");
        assert_eq!(pattern(r"a_b%c\d"), r"a\_b\%c\\d/%");
    }
}
