//! Every way in which a cartridge may fail to build. Each message says what to do next.

use std::path::{Path, PathBuf};

use crate::Tool;

/// Why a cartridge was not built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable of the environment cannot be read as shell words.
    #[error(
        "{variable} has an open quote or a trailing backslash: `{value}`. Quote it as in a shell"
    )]
    BadArguments {
        /// The name of the variable.
        variable: &'static str,
        /// What it holds.
        value: String,
    },

    /// A program is not there, or may not be run.
    #[error("cannot run `{program}`: {source}. Install it, or name another one in {variable}")]
    Spawn {
        /// The program, as it was called.
        program: String,
        /// The variable that overrides it.
        variable: &'static str,
        /// What the operating system says.
        source: std::io::Error,
    },

    /// The program that builds the cartridge's language is nowhere to be found.
    #[error("{}", missing_tool(tool, dir))]
    MissingTool {
        /// What was looked for.
        tool: Tool,
        /// The folder of the cartridge.
        dir: PathBuf,
    },

    /// The program that builds the cartridge's language failed.
    #[error(
        "{tool} failed ({status}). Its messages stand above; the same by hand is:\n  {command}"
    )]
    ToolFailed {
        /// Its name.
        tool: &'static str,
        /// How it ended.
        status: String,
        /// The command line, for a shell.
        command: String,
    },

    /// The folder holds nothing to build.
    #[error(
        "{} holds no cartridge: neither a Cargo.toml nor a halofy.toml. \
         `halofy cartridge new NAME --lang rust|js|python|c` makes one",
        dir.display()
    )]
    NoCartridge {
        /// The folder.
        dir: PathBuf,
    },

    /// The file that describes the cartridge is not as it should be.
    #[error("{}: {}", path.display(), message.trim_end())]
    Descriptor {
        /// The file to edit.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },

    /// A template cannot be written there, or under that name.
    #[error("{0}")]
    Template(String),

    /// The compiler in use has no standard library for the target.
    #[error("{}", missing_target(rustc, reason))]
    MissingTarget {
        /// The compiler that was asked.
        rustc: String,
        /// What was found, or tried.
        reason: String,
    },

    /// `rustc --print` failed.
    #[error(
        "`{rustc}` cannot describe itself: {message}. Check that it is a Rust compiler, or set HALOFY_WASM_RUSTC"
    )]
    Compiler {
        /// The compiler that was asked.
        rustc: String,
        /// What it wrote to its standard error.
        message: String,
    },

    /// `cargo metadata` failed, or answered with something else.
    #[error("cannot read the crate in {}: {message}", crate_dir.display())]
    Metadata {
        /// The folder of the cartridge.
        crate_dir: PathBuf,
        /// What cargo says; it names the remedy.
        message: String,
    },

    /// The manifest needs a key that `Cargo.toml` does not have.
    #[error("{} has no `{key}`. {hint}", cargo_toml.display())]
    MissingKey {
        /// The file to edit.
        cargo_toml: PathBuf,
        /// The dotted key, such as `package.metadata.halofy.vendor`.
        key: &'static str,
        /// An example of the line to add.
        hint: &'static str,
    },

    /// The nested build failed; cargo has already shown why on the standard error.
    #[error(
        "cargo could not build the cartridge in {} ({status}). Its messages stand above; \
         the same build by hand is:\n  {command}",
        crate_dir.display()
    )]
    CargoBuild {
        /// The folder of the cartridge.
        crate_dir: PathBuf,
        /// How cargo ended.
        status: String,
        /// The command line, for a shell.
        command: String,
    },

    /// The build made no WebAssembly module.
    #[error("the crate in {} builds no WebAssembly module. Add to its Cargo.toml:\n  [lib]\n  \
             crate-type = [\"cdylib\"]", crate_dir.display())]
    NoArtifact {
        /// The folder of the cartridge.
        crate_dir: PathBuf,
    },

    /// The module or component asks for more than the scoped view.
    #[error("a cartridge may import nothing but `halofy:driver/*`, and this one asks for {}. \
             {IMPORT_HINT}", imports.join(", "))]
    ForbiddenImports {
        /// What it asks for, in the order of the binary.
        imports: Vec<String>,
    },

    /// The component exports no retriever.
    #[error(
        "the component does not export `halofy:driver/retriever`; it exports {}. Implement \
         `retriever` and call the export macro in the crate's lib.rs",
        list_or_nothing(exports)
    )]
    NoRetriever {
        /// What it exports instead.
        exports: Vec<String>,
    },

    /// The module could not be turned into a component.
    #[error(
        "cannot make a component of the module: {message}. Check that its bindings are made by the \
         wit-bindgen release that halofy-driver names, from this kernel's driver.wit"
    )]
    Componentise {
        /// The whole chain of causes.
        message: String,
    },

    /// Bytes that should be WebAssembly are not.
    #[error("not a WebAssembly binary: {0}. Remove the target directory and build again")]
    Malformed(#[from] wasmparser::BinaryReaderError),

    /// A file or folder cannot be read or made.
    #[error("{}: {source}. Check that it exists and that its permissions allow this", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
}

const IMPORT_HINT: &str = "There is no WASI, clock, randomness, file or network in the sandbox: \
    look for a dependency that wants one (`cargo tree`), or an undefined symbol, and build without it";

fn list_or_nothing(names: &[String]) -> String {
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}

fn missing_tool(tool: &Tool, dir: &Path) -> String {
    let (name, language, variable) = (tool.name, tool.language, tool.variable);
    let mut text = format!(
        "{name} builds cartridges in {language}, and is neither installed beside {} nor on the \
         PATH. Run there:",
        dir.display()
    );
    for line in tool.install {
        text += &format!("\n  {line}");
    }
    text + &format!("\nor name one that you have in {variable}")
}

fn missing_target(rustc: &str, reason: &str) -> String {
    format!(
        "`{rustc}` has no standard library for wasm32-unknown-unknown: {reason}.\n\
         With rustup:\n  \
         rustup target add wasm32-unknown-unknown\n\
         With a distribution's compiler, such as Debian's:\n  \
         apt-get install rustc-web cargo-web rust-web-src lld-19\n  \
         export RUSTC_BOOTSTRAP=1 HALOFY_WASM_CARGO=/usr/bin/cargo HALOFY_WASM_RUSTC=/usr/bin/rustc\n  \
         export HALOFY_WASM_LINKER=wasm-ld-19 HALOFY_WASM_CARGO_ARGS=-Zbuild-std=std,panic_abort"
    )
}
