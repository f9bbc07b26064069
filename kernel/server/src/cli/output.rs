//! Printing, for people and for scripts. The only place that writes to standard
//! output.
#![allow(clippy::print_stdout, reason = "this is the command line's output")]

use std::io::{IsTerminal, Write};

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

/// Prints a line.
pub(crate) fn line(text: impl std::fmt::Display) {
    print(&harmless(&text.to_string()));
}

/// Ends the program quietly when nobody reads any more, as `halofy … | head` does.
fn print(text: &str) {
    if let Err(error) = writeln!(std::io::stdout().lock(), "{text}") {
        let quiet = error.kind() == std::io::ErrorKind::BrokenPipe;
        std::process::exit(if quiet { 0 } else { 1 });
    }
}

/// Text without what would drive a terminal: memories and reasons are other people's words.
fn harmless(text: &str) -> String {
    let drives = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(drives) {
        return text.to_owned();
    }
    let shown = text.chars().map(|c| match drives(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    shown.collect()
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&text),
        Err(error) => fail(&error.into()),
    }
}

/// Prints rows under a header.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header);
    for row in rows {
        table.add_row(row.map(|cell| harmless(&cell)));
    }
    print(&table.to_string());
}

/// Says something beside the answer.
pub(crate) fn note(text: impl std::fmt::Display) {
    eprintln!("note: {}", harmless(&text.to_string()));
}

/// Prints an error and what led to it.
pub(crate) fn fail(error: &anyhow::Error) {
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because: {cause}");
    }
}

/// Prints an error as JSON, to where the answer would have stood.
pub(crate) fn fail_as_json(error: &anyhow::Error) {
    let because: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    json(&serde_json::json!({ "error": error.to_string(), "because": because }));
}

/// The kernel's own log: JSON lines on standard error when that is no terminal.
/// Only errors, unless the kernel is there to stay.
pub(crate) fn init_tracing(serves: bool) {
    let usual = if serves { "warn,halofy=info" } else { "error" };
    let filter = EnvFilter::try_from_env("HALOFY_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = if std::io::stderr().is_terminal() {
        log.compact().try_init()
    } else {
        log.json().try_init()
    };
    // Somebody who embeds this library may have set a log up already.
    drop(started);
}
