//! Reading and writing whole files, with errors that name them.

use std::path::Path;

use crate::Error;

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| io(path, source))
}

/// Writes a file, and the folders that hold it.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| io(folder, source))?;
    }
    std::fs::write(path, content).map_err(|source| io(path, source))
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}
