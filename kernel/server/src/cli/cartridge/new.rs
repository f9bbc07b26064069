//! `halofy cartridge new`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use halofy_build::{Language, template};
use serde_json::json;

use super::super::output::{self, line};
use super::super::settings::Settings;

/// Write a new cartridge's folder, which builds and passes every check as it is.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// What policies will call it: lower-case letters, digits, - and _.
    name: String,
    /// What it is written in: rust, js, python or c.
    #[arg(long = "lang", value_name = "LANGUAGE", default_value_t = Language::Rust)]
    language: Language,
    /// Where to; a folder of its name unless given.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl New {
    pub(crate) fn run(self, settings: &Settings) -> Result<ExitCode> {
        let dir = self.dir.unwrap_or_else(|| PathBuf::from(&self.name));
        let files = template::write(self.language, &self.name, &dir)?;
        let steps = steps(self.language, &self.name, &dir.to_string_lossy());
        if settings.json {
            output::json(&json!({
                "name": self.name,
                "language": self.language.name(),
                "dir": dir,
                "files": files,
                "next": steps,
            }));
            return Ok(ExitCode::SUCCESS);
        }
        for file in &files {
            line(dir.join(file).display());
        }
        line("next:");
        for step in steps {
            line(format_args!("  {step}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// From here to a component that passed.
fn steps(language: Language, name: &str, dir: &str) -> Vec<String> {
    let tools: &[&str] = match language {
        Language::Rust => &["cargo test"],
        Language::JavaScript => &["npm install"],
        Language::Python | Language::C => &[
            "python3 -m venv .venv",
            ".venv/bin/pip install -r requirements.txt",
        ],
    };
    let mut steps = vec![format!("cd {dir}")];
    steps.extend(tools.iter().map(|step| (*step).to_owned()));
    steps.push(format!("halofy cartridge build -o {name}.wasm"));
    steps.push(format!("halofy cartridge test {name}.wasm"));
    steps
}
