//! Printing, for people and for scripts. The only place that writes to standard
//! output.
#![allow(clippy::print_stdout, reason = "this is the command line's output")]

use std::io::IsTerminal;

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

/// Prints a line.
pub(crate) fn line(text: impl std::fmt::Display) {
    println!("{text}");
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => println!("{text}"),
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
        table.add_row(row);
    }
    println!("{table}");
}

/// Prints an error and what led to it.
pub(crate) fn fail(error: &anyhow::Error) {
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because: {cause}");
    }
}

/// The kernel's own log: JSON lines on standard error when that is no terminal.
pub(crate) fn init_tracing() {
    let filter = EnvFilter::try_from_env("HALOFY_LOG")
        .unwrap_or_else(|_| EnvFilter::new("warn,halofy=info"));
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
