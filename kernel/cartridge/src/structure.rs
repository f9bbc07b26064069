//! Bounds on a component's structure that keep the compiler's work in proportion to
//! its bytes. Counted in the one pass of admission; what slips through meets the
//! limits of the compiler's own process. The nesting of types is bounded by the
//! validator, at 100.

use wasmparser::{FunctionBody, Operator, Payload};

use crate::error::LoadError;

/// Core functions with a body, all modules together. CPython has some 12,000.
const FUNCTIONS: u64 = 100_000;
/// Bytes of one function body. An interpreter's main loop has up to 150,000.
const BODY: u64 = 512 << 10;
/// Blocks, loops, ifs and handlers in one function body. The compiler's work grows
/// faster than their number.
const BLOCKS: u64 = 16_384;
/// How deep they are nested. A `switch` of n cases compiles to n nested blocks.
const NESTING: u64 = 4_096;
/// Core modules and components inside, at any depth.
const NESTED: u64 = 200;
/// How deep components are nested.
const DEPTH: u64 = 16;
/// Imports of all modules and components together.
const IMPORTS: u64 = 20_000;
/// Exports of all modules and components together.
const EXPORTS: u64 = 50_000;

/// What has been counted so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Structure {
    pub(crate) functions: u64,
    pub(crate) nested: u64,
    depth: u64,
    imports: u64,
    exports: u64,
}

impl Structure {
    /// Takes the next payload into account.
    pub(crate) fn count(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::Version { .. } => {
                self.depth += 1;
                within("levels of nested components", self.depth, DEPTH)
            }
            Payload::End(_) => {
                self.depth = self.depth.saturating_sub(1);
                Ok(())
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.nested += 1;
                within("modules and components inside", self.nested, NESTED)
            }
            Payload::ImportSection(section) => self.import(section.count()),
            Payload::ComponentImportSection(section) => self.import(section.count()),
            Payload::ExportSection(section) => self.export(section.count()),
            Payload::ComponentExportSection(section) => self.export(section.count()),
            // Before the bodies are read: a count is a claim, and costs nothing.
            Payload::CodeSectionStart { count, .. } => {
                self.functions += u64::from(*count);
                within("functions", self.functions, FUNCTIONS)
            }
            Payload::CodeSectionEntry(body) => check_body(body),
            _ => Ok(()),
        }
    }

    fn import(&mut self, count: u32) -> Result<(), LoadError> {
        self.imports += u64::from(count);
        within("imports", self.imports, IMPORTS)
    }

    fn export(&mut self, count: u32) -> Result<(), LoadError> {
        self.exports += u64::from(count);
        within("exports", self.exports, EXPORTS)
    }
}

fn within(what: &'static str, found: u64, limit: u64) -> Result<(), LoadError> {
    if found > limit {
        return Err(LoadError::Structure { what, found, limit });
    }
    Ok(())
}

fn check_body(body: &FunctionBody<'_>) -> Result<(), LoadError> {
    let range = body.range();
    let size = range.end.saturating_sub(range.start);
    within("bytes in one function", size, BODY)?;
    // A block takes three bytes at least, with its end: most bodies need no reading.
    if size / 3 < NESTING {
        return Ok(());
    }
    let malformed = |e: wasmparser::Error| LoadError::Malformed(e.to_string());
    let (mut blocks, mut open) = (0, 0_u64);
    for operator in body.get_operators_reader().map_err(malformed)? {
        match operator.map_err(malformed)? {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::TryTable { .. } => {
                blocks += 1;
                open += 1;
                within("blocks in one function", blocks, BLOCKS)?;
                within("levels of nested blocks", open, NESTING)?;
            }
            Operator::End => open = open.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}
