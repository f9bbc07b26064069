//! Which rows a statement may touch: the visibility predicate, written once.
//!
//! Invariant: every read of memories goes through [`visible!`], [`visible_rows!`],
//! [`visible_then!`], [`visible_at!`], [`visible_ever!`] or [`in_scope!`] with a [`Scope`]
//! bound as `$1`. No other file of this crate compares a namespace with a pattern.

use halofy_core::{Identity, Namespace, SourceAccess, group_reader, principal_reader};

/// What one caller sees: the rows of its own namespace and of its ancestors, of those the
/// ones that everybody may read or that name it as a reader.
///
/// Bound as one array, so that the rule needs no pattern matching: namespaces, and what
/// the caller is a reader as. The latter begin with a slash, and no namespace does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    own: Namespace,
    bound: Vec<String>,
}

impl Scope {
    /// What a caller sees.
    pub fn of(caller: &Identity) -> Self {
        let mut scope = Self::anybody_in(&caller.namespace);
        scope.bound.push(principal_reader(caller.actor.as_str()));
        scope
            .bound
            .extend(caller.groups.iter().map(|group| group_reader(group)));
        scope
    }

    /// What everybody in a namespace sees: nothing that names its readers.
    pub fn anybody_in(namespace: &Namespace) -> Self {
        Self {
            own: namespace.clone(),
            bound: namespace.visible(),
        }
    }

    /// The caller's own namespace.
    pub fn own(&self) -> &Namespace {
        &self.own
    }

    /// Whether the caller is among those who may read it: everybody is where nobody is named.
    pub fn reads(&self, access: &SourceAccess) -> bool {
        let readers = access.readers();
        readers.is_none_or(|readers| readers.iter().any(|one| self.bound.contains(one)))
    }

    pub(crate) fn bound(&self) -> &[String] {
        &self.bound
    }
}

/// The rows of a table `m` in the namespaces of the scope bound as `$1`.
macro_rules! in_namespaces {
    () => {
        "m.namespace = any($1)"
    };
}

/// The rows of `memory_objects m` that the scope bound as `$1` may read.
macro_rules! readable {
    () => {
        "(m.readers is null or m.readers && $1)"
    };
}

/// The rows of `memory_objects m` in the scope bound as `$1`, of any validity.
macro_rules! in_scope {
    () => {
        concat!(
            $crate::scope::in_namespaces!(),
            " and ",
            $crate::scope::readable!()
        )
    };
}

/// The rows of `memory_objects m` that are believed now: active and currently valid.
macro_rules! current {
    () => {
        "m.status = 'active' and m.t_valid_to is null"
    };
}

/// The rows of `memory_objects m` in the scope bound as `$1` that were believed at the
/// moment bound as `$4`: known by then, and neither closed nor put aside yet.
macro_rules! visible_then {
    () => {
        concat!(
            $crate::scope::in_scope!(),
            " and m.assertion_time <= $4 and ",
            $crate::scope::believed_then!(),
            " and (m.closed_at is null or m.closed_at > $4)"
        )
    };
}

/// The rows of `memory_objects m` in the scope bound as `$1` that hold at the moment bound
/// as `$5`, as far as was known at the moment bound as `$4`. One that was closed gives way
/// to what was told of later and had begun by then.
macro_rules! visible_at {
    () => {
        concat!(
            $crate::scope::in_scope!(),
            " and m.assertion_time <= $4 and ",
            $crate::scope::believed_then!(),
            " and m.t_valid_from <= $5
              and (m.t_valid_to is null or m.closed_at > $4
                   or (m.t_valid_to > $5
                       and not exists (select from memory_objects nearer
                                        where nearer.supersedes = m.id
                                          and nearer.status = 'active'
                                          and nearer.closed_at <= $4
                                          and nearer.t_valid_from <= $5)))"
        )
    };
}

/// The rows of `memory_objects m` in the scope bound as `$1` that are believed, or ended as
/// what was: not those that are put aside.
macro_rules! visible_ever {
    () => {
        concat!($crate::scope::in_scope!(), " and m.status = 'active'")
    };
}

/// The rows of `memory_objects m` that were not put aside at the moment bound as `$4`.
macro_rules! believed_then {
    () => {
        "(m.disputed_at is null or m.disputed_at > $4)"
    };
}

/// The rows of `memory_objects m` that the scope bound as `$1` sees: in scope and
/// believed now.
macro_rules! visible {
    () => {
        concat!(
            $crate::scope::in_scope!(),
            " and ",
            $crate::scope::current!()
        )
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
            $crate::scope::readable!(),
            " and ",
            $crate::scope::current!(),
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

pub(crate) use {
    believed_then, current, in_namespaces, in_scope, in_subtree, readable, visible, visible_at,
    visible_ever, visible_rows, visible_then,
};

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
