//! A static embedder: a text's vector is the normalised mean of its tokens' rows in a
//! fixed table. Local and without a network. Reads a directory; downloads nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

use super::{
    EmbedError, EmbedFuture, Embedder, check_dimension, check_vectors, normalise, on_cpu,
    refuse_blank,
};

/// Names under which published tables keep their rows, the preferred first.
const TENSOR_NAMES: [&str; 2] = ["embedding.weight", "embeddings"];

/// Embeds with a table of one row a token.
///
/// No special tokens are added, nothing is padded and nothing is cut: the rows of all the
/// text's tokens are averaged with equal weight and scaled to unit length.
#[derive(Debug, Clone)]
pub struct TableEmbedder {
    table: Arc<Table>,
    identity: String,
}

impl TableEmbedder {
    /// Reads `dir`: one `*.safetensors` with a 2-D tensor of F32, F16 or BF16 (named
    /// `embedding.weight` or `embeddings`, or the only 2-D one), and `tokenizer.json` (or
    /// the only `*tokenizer*.json`) in the Hugging Face form. Blocks while reading.
    ///
    /// The identity is `static/<directory's name>-<digest of both files>/<dimension>`.
    ///
    /// # Errors
    /// [`EmbedError::Misconfigured`] naming the file and what is expected of it.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let dir = dir.as_ref();
        let names = file_names(dir)?;
        let table_path = dir.join(pick_table(dir, &names)?);
        let tokenizer_path = dir.join(pick_tokenizer(dir, &names)?);
        let table_bytes = read(&table_path)?;
        let tokenizer_bytes = read(&tokenizer_path)?;

        let (rows, dimension) = read_rows(&table_path, &table_bytes)?;
        let tokenizer = read_tokenizer(&tokenizer_path, &tokenizer_bytes)?;
        let table = Table {
            tokenizer,
            rows,
            dimension,
        };
        table.check_vocabulary(&tokenizer_path)?;
        let digest = short_digest(&[&table_bytes, &tokenizer_bytes]);
        Ok(Self {
            identity: format!("static/{}-{digest}/{dimension}", directory_name(dir)?),
            table: Arc::new(table),
        })
    }
}

impl Embedder for TableEmbedder {
    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a> {
        let table = Arc::clone(&self.table);
        Box::pin(on_cpu(texts, move |texts| table.embed_all(texts)))
    }

    fn dimension(&self) -> usize {
        self.table.dimension
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn is_local(&self) -> bool {
        true
    }
}

struct Table {
    tokenizer: Tokenizer,
    /// Row after row. Held as f32 whatever the file's type: a table of 32,000 x 256 costs
    /// 32 MB instead of 16, and no text pays for a conversion.
    rows: Vec<f32>,
    dimension: usize,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("rows", &self.row_count())
            .field("dimension", &self.dimension)
            .finish_non_exhaustive()
    }
}

impl Table {
    fn row_count(&self) -> usize {
        self.rows.len() / self.dimension
    }

    /// Found at opening, a tokenizer of another model is one clear error; found later, it
    /// is an error on some texts and plausible nonsense on the others.
    fn check_vocabulary(&self, tokenizer_path: &Path) -> Result<(), EmbedError> {
        let rows = self.row_count();
        let vocabulary = self.tokenizer.get_vocab(true);
        match vocabulary.values().max() {
            Some(&largest) if largest as usize >= rows => Err(misconfigured(
                tokenizer_path,
                format!("token id {largest} is out of range: the table has {rows} rows"),
            )),
            Some(_) => Ok(()),
            None => Err(misconfigured(tokenizer_path, "it has no tokens")),
        }
    }

    fn embed_all(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        refuse_blank(texts)?;
        let vectors = texts
            .iter()
            .enumerate()
            .map(|(index, text)| self.embed_one(index, text))
            .collect::<Result<Vec<_>, _>>()?;
        check_vectors(self.dimension, texts.len(), &vectors)?;
        Ok(vectors)
    }

    fn embed_one(&self, index: usize, text: &str) -> Result<Vec<f32>, EmbedError> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|_| {
            EmbedError::Misconfigured("the tokenizer cannot encode a text of the batch".into())
        })?;
        // The sum and the mean have one direction, and only the direction stays.
        let mut sum = vec![0.0_f32; self.dimension];
        for &id in encoding.get_ids() {
            for (total, number) in sum.iter_mut().zip(self.row(id)?) {
                *total += number;
            }
        }
        if sum.iter().all(|number| *number == 0.0) {
            return Err(EmbedError::EmptyText { index });
        }
        normalise(&mut sum);
        Ok(sum)
    }

    fn row(&self, id: u32) -> Result<&[f32], EmbedError> {
        let start = id as usize * self.dimension;
        self.rows.get(start..start + self.dimension).ok_or_else(|| {
            EmbedError::Misconfigured(format!(
                "token id {id} is out of range: the table has {} rows",
                self.row_count()
            ))
        })
    }
}

fn pick_table<'a>(dir: &Path, names: &'a [String]) -> Result<&'a str, EmbedError> {
    pick(
        dir,
        names,
        |name| name.ends_with(".safetensors"),
        "*.safetensors",
    )
}

fn pick_tokenizer<'a>(dir: &Path, names: &'a [String]) -> Result<&'a str, EmbedError> {
    if let Some(name) = names.iter().find(|name| *name == "tokenizer.json") {
        return Ok(name);
    }
    let is_tokenizer = |name: &str| name.contains("tokenizer") && name.ends_with(".json");
    pick(
        dir,
        names,
        is_tokenizer,
        "tokenizer.json or *tokenizer*.json",
    )
}

fn pick<'a>(
    dir: &Path,
    names: &'a [String],
    wanted: impl Fn(&str) -> bool,
    expected: &str,
) -> Result<&'a str, EmbedError> {
    let found: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|n| wanted(n))
        .collect();
    match found[..] {
        [name] => Ok(name),
        [] => Err(misconfigured(
            dir,
            format!("a file {expected} is expected here and missing"),
        )),
        _ => Err(misconfigured(
            dir,
            format!(
                "one file {expected} is expected, found {}",
                found.join(", ")
            ),
        )),
    }
}

fn file_names(dir: &Path) -> Result<Vec<String>, EmbedError> {
    let unreadable = |error| misconfigured(dir, format!("cannot be listed: {error}"));
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        names.push(
            entry
                .map_err(unreadable)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<Vec<u8>, EmbedError> {
    fs::read(path).map_err(|error| misconfigured(path, format!("cannot be read: {error}")))
}

fn read_tokenizer(path: &Path, bytes: &[u8]) -> Result<Tokenizer, EmbedError> {
    let mut tokenizer = Tokenizer::from_bytes(bytes)
        .map_err(|error| misconfigured(path, format!("not a tokenizer file: {error}")))?;
    // A tokenizer file may ask for both; either would change the mean.
    tokenizer.with_padding(None);
    tokenizer
        .with_truncation(None)
        .map_err(|error| misconfigured(path, error))?;
    Ok(tokenizer)
}

/// The table's numbers, row after row, and how many a row has.
fn read_rows(path: &Path, bytes: &[u8]) -> Result<(Vec<f32>, usize), EmbedError> {
    let tensors = SafeTensors::deserialize(bytes)
        .map_err(|error| misconfigured(path, format!("not a safetensors file: {error}")))?;
    let (name, tensor) = pick_tensor(path, &tensors)?;
    let &[rows, dimension] = tensor.shape() else {
        let shape = tensor.shape();
        return Err(misconfigured(
            path,
            format!("tensor {name} has the shape {shape:?}, expected two dimensions"),
        ));
    };
    if rows == 0 || dimension == 0 {
        return Err(misconfigured(
            path,
            format!("tensor {name} is empty ({rows} x {dimension})"),
        ));
    }
    check_dimension(dimension)?;
    let numbers = to_f32(path, name, &tensor)?;
    if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
        return Err(misconfigured(
            path,
            format!("row {} of tensor {name} is not finite", place / dimension),
        ));
    }
    Ok((numbers, dimension))
}

fn pick_tensor<'a>(
    path: &Path,
    tensors: &'a SafeTensors<'a>,
) -> Result<(&'a str, TensorView<'a>), EmbedError> {
    let all: Vec<(&str, TensorView<'_>)> = tensors.iter().collect();
    for wanted in TENSOR_NAMES {
        if let Some(found) = all.iter().find(|(name, _)| *name == wanted) {
            return Ok(found.clone());
        }
    }
    let flat: Vec<_> = all
        .iter()
        .filter(|(_, tensor)| tensor.shape().len() == 2)
        .collect();
    match flat[..] {
        [found] => Ok(found.clone()),
        _ => {
            let mut names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            Err(misconfigured(
                path,
                format!(
                    "expected a tensor {} or exactly one of two dimensions, found {}",
                    TENSOR_NAMES.join(" or "),
                    names.join(", ")
                ),
            ))
        }
    }
}

fn to_f32(path: &Path, name: &str, tensor: &TensorView<'_>) -> Result<Vec<f32>, EmbedError> {
    // Safetensors stores little-endian numbers, and checked the length against the shape.
    let data = tensor.data();
    match tensor.dtype() {
        Dtype::F32 => Ok(data
            .as_chunks()
            .0
            .iter()
            .map(|&b| f32::from_le_bytes(b))
            .collect()),
        Dtype::F16 => Ok(data
            .as_chunks()
            .0
            .iter()
            .map(|&b| f16::from_le_bytes(b).to_f32())
            .collect()),
        Dtype::BF16 => Ok(data
            .as_chunks()
            .0
            .iter()
            .map(|&b| bf16::from_le_bytes(b).to_f32())
            .collect()),
        other => Err(misconfigured(
            path,
            format!("tensor {name} holds {other:?}, expected F32, F16 or BF16"),
        )),
    }
}

fn directory_name(dir: &Path) -> Result<String, EmbedError> {
    // Resolved first, so that `.` and `models/x/` have a name too.
    let resolved: PathBuf = dir
        .canonicalize()
        .map_err(|error| misconfigured(dir, error))?;
    resolved
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .ok_or_else(|| misconfigured(dir, "the directory has no name"))
}

/// The first 12 hexadecimal digits of SHA-256 over the files, each preceded by its length.
fn short_digest(files: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for file in files {
        hasher.update((file.len() as u64).to_le_bytes());
        hasher.update(file);
    }
    hex::encode(&hasher.finalize()[..6])
}

fn misconfigured(path: &Path, reason: impl std::fmt::Display) -> EmbedError {
    EmbedError::Misconfigured(format!("{}: {reason}", path.display()))
}
