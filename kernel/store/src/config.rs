//! Where the database is, and which vector space its vectors are in.

use std::path::PathBuf;

/// Where the database is.
#[derive(Debug, Clone)]
pub enum Location {
    /// In this process, with its files in a directory.
    Embedded(PathBuf),
    /// On a server, by its `postgres://` URL.
    Server(String),
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Where the database is.
    pub location: Location,
    /// The most connections to a server; the embedded database has one.
    pub max_connections: u32,
}

impl StoreConfig {
    /// A store at `location` with the usual 16 connections.
    pub fn new(location: Location) -> Self {
        Self {
            location,
            max_connections: 16,
        }
    }
}

/// The space that vectors live in: vectors of two spaces cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorSpace {
    /// Embedder, model and dimension, such as `hash/256`.
    pub embedder: String,
    /// Numbers in a vector, 1 to 16,000.
    pub dimension: usize,
}
