//! A new cartridge's folder, in any language, that builds and passes conformance as it is.
//! What must not live here: the templates' text, which is in `templates/`.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use crate::{Error, Language, sdk};

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

/// The name that stands in the templates for that of the new cartridge.
const PLACEHOLDER: &str = "my-engine";
const MAX_NAME: usize = 64;

/// Writes a cartridge named `name` to `dir`, which must be empty or missing. Gives the files
/// written, from `dir`, in order; of a Rust project without those of the SDK copied into it.
///
/// # Errors
/// [`Error::Template`] for a name that no kernel takes, or a folder that holds something;
/// [`Error::Io`].
pub fn write(language: Language, name: &str, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    check_name(name)?;
    check_empty(dir)?;
    let mut written = Vec::new();
    let template = TEMPLATES
        .get_dir(language.name())
        .expect("there is a folder of each language");
    for (path, text) in files(template) {
        let below = path
            .strip_prefix(language.name())
            .expect("it is in that folder");
        let named = PathBuf::from(renamed(&below.to_string_lossy(), name));
        crate::files::write(&dir.join(&named), renamed(text, name).as_bytes())?;
        written.push(named);
    }
    if language == Language::Rust {
        sdk::copy(&dir.join("halofy-sdk"))?;
    }
    written.sort();
    Ok(written)
}

/// Every file of a folder, with its text.
pub(crate) fn files<'d>(dir: &'d Dir<'d>) -> Vec<(&'d Path, &'d str)> {
    let text = |file: &'d include_dir::File<'d>| {
        let text = file
            .contents_utf8()
            .expect("templates and sources are text");
        (file.path(), text)
    };
    let mut found: Vec<_> = dir.files().map(text).collect();
    found.extend(dir.dirs().flat_map(files));
    found
}

/// Puts the name in the place of the template's, in each of the forms it takes there.
fn renamed(text: &str, name: &str) -> String {
    let words = |text: &str| text.replace('-', "_");
    let camel = |text: &str| {
        let parts = text.split(['-', '_']).map(|part| {
            let (first, rest) = part.split_at(part.len().min(1));
            first.to_uppercase() + rest
        });
        parts.collect::<String>()
    };
    text.replace(PLACEHOLDER, name)
        .replace(&words(PLACEHOLDER), &words(name))
        .replace(&camel(PLACEHOLDER), &camel(name))
}

/// What the kernel takes as a driver's name, and each language as that of a module.
fn check_name(name: &str) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let good = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= MAX_NAME
        && name.chars().all(allowed)
        && !["driver", "baseline", "halofy-driver", "halofy-retrieval"].contains(&name);
    if good {
        return Ok(());
    }
    Err(Error::Template(format!(
        "{name:?} cannot be a cartridge's name: it begins with a lower-case letter, holds \
         lower-case letters, digits, - and _, has at most {MAX_NAME} characters, and is not \
         one that is taken"
    )))
}

fn check_empty(dir: &Path) -> Result<(), Error> {
    let holds_something = dir
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some());
    if holds_something || dir.is_file() {
        let dir = dir.display();
        return Err(Error::Template(format!(
            "{dir} is there already. Name an empty folder, or one that is not there, with --dir"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_has_its_files_under_the_new_name() {
        for (language, source) in [
            (Language::Rust, "src/lib.rs"),
            (Language::JavaScript, "over-the_top.js"),
            (Language::Python, "over_the_top.py"),
            (Language::C, "over_the_top.c"),
        ] {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let dir = dir.path().join("new");
            let written = write(language, "over-the_top", &dir).expect("it is written");
            for file in [source, "README.md", ".gitignore"] {
                assert!(written.contains(&file.into()), "{file} of {written:?}");
            }
            for file in written {
                let text = std::fs::read_to_string(dir.join(&file)).expect("a text");
                for form in ["my-engine", "my_engine", "MyEngine"] {
                    assert!(!text.contains(form), "{form} in {}", file.display());
                }
            }
            let again = write(language, "over-the_top", &dir).expect_err("it is there");
            assert!(again.to_string().contains("is there already"), "{again}");
        }
    }

    #[test]
    fn a_name_that_no_kernel_takes_is_refused() {
        for name in [
            "",
            "My-Engine",
            "1st",
            "a b",
            "ä",
            "../up",
            "driver",
            "baseline",
        ] {
            let error = write(Language::C, name, Path::new("nowhere")).expect_err(name);
            assert!(matches!(error, Error::Template(_)), "{error}");
        }
    }
}
