//! The static embedder, on tables made here and, when the environment variable
//! `HALOFY_STATIC_TABLE` names the directory of a real one, against reference vectors.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{EmbedError, Embedder, TableEmbedder};

/// Rows of `[unk]`, `red`, `blue`, `anti` (the opposite of `red`) and `[cls]`.
const ROWS: [[f32; 2]; 5] = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [9.0, 9.0]];

/// A word tokenizer that, asked for special tokens, padding or truncation, gives them.
fn tokenizer() -> Value {
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 4, "pad_type_id": 0, "pad_token": "[cls]"
        },
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "BertProcessing", "sep": ["[cls]", 4], "cls": ["[cls]", 4]
        },
        "decoder": null,
        "model": {
            "type": "WordLevel", "unk_token": "[unk]",
            "vocab": {"[unk]": 0, "red": 1, "blue": 2, "anti": 3, "[cls]": 4}
        }
    })
}

fn write_tensors(dir: &Path, tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) {
    let views: HashMap<String, TensorView<'_>> = tensors
        .iter()
        .map(|(name, dtype, shape, data)| {
            let view = TensorView::new(*dtype, shape.to_vec(), data).expect("shape fits the data");
            ((*name).to_owned(), view)
        })
        .collect();
    let bytes = safetensors::serialize(views, None).expect("serialises");
    fs::write(dir.join("table.safetensors"), bytes).expect("writable");
}

fn f32_bytes(rows: &[[f32; 2]]) -> Vec<u8> {
    rows.as_flattened()
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect()
}

/// A directory with the table `ROWS` and the tokenizer.
fn model() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    write_tensors(
        dir.path(),
        &[("embedding.weight", Dtype::F32, &[5, 2], f32_bytes(&ROWS))],
    );
    fs::write(dir.path().join("tokenizer.json"), tokenizer().to_string()).expect("writable");
    dir
}

fn refusal(dir: &Path) -> String {
    match TableEmbedder::open(dir).expect_err("must be refused") {
        EmbedError::Misconfigured(reason) => reason,
        other => panic!("{other}"),
    }
}

async fn embed(embedder: &TableEmbedder, text: &str) -> Result<Vec<f32>, EmbedError> {
    let mut vectors = embedder.embed(&[text.to_owned()]).await?;
    Ok(vectors.remove(0))
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f32]) {
    let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(close),
        "{got:?} is not {expected:?}"
    );
}

#[tokio::test]
async fn a_vector_is_the_normalised_mean_of_all_rows_and_nothing_else() {
    let dir = model();
    let embedder = TableEmbedder::open(dir.path()).expect("opens");
    assert_eq!(embedder.dimension(), 2);
    assert!(embedder.is_local());
    let half = std::f32::consts::FRAC_1_SQRT_2;
    assert_close(&embed(&embedder, "red").await.expect("embeds"), &[1.0, 0.0]);
    // Two reds weigh as much as one blue; a truncation to two tokens would lose the blue.
    let mixed = embed(&embedder, "red red blue").await.expect("embeds");
    assert_close(&mixed, &[half, half]);
}

#[tokio::test]
async fn a_text_whose_mean_is_zero_is_refused_by_position() {
    let dir = model();
    let embedder = TableEmbedder::open(dir.path()).expect("opens");
    for empty in ["", "  \n", "red anti", "unknown"] {
        let batch = ["red".to_owned(), empty.to_owned()];
        let error = embedder.embed(&batch).await.expect_err("no direction");
        assert_eq!(error, EmbedError::EmptyText { index: 1 }, "{empty:?}");
    }
}

#[tokio::test]
async fn half_precision_tables_read_the_same() {
    let dir = model();
    let numbers = ROWS.as_flattened();
    let f16s = numbers
        .iter()
        .flat_map(|n| f16::from_f32(*n).to_le_bytes())
        .collect();
    let bf16s = numbers
        .iter()
        .flat_map(|n| bf16::from_f32(*n).to_le_bytes())
        .collect();
    for (dtype, data) in [(Dtype::F16, f16s), (Dtype::BF16, bf16s)] {
        write_tensors(dir.path(), &[("embeddings", dtype, &[5, 2], data)]);
        let embedder = TableEmbedder::open(dir.path()).expect("opens");
        let vector = embed(&embedder, "red blue").await.expect("embeds");
        assert_close(&vector, &[0.2_f32.sqrt(), 0.8_f32.sqrt()]);
    }
}

#[test]
fn the_identity_follows_the_directory_and_the_content_of_both_files() {
    let dir = model();
    let identity = || {
        TableEmbedder::open(dir.path())
            .expect("opens")
            .identity()
            .to_owned()
    };
    let first = identity();
    let name = dir.path().file_name().expect("named").to_string_lossy();
    assert!(first.starts_with(&format!("static/{name}-")) && first.ends_with("/2"));
    assert_eq!(first, identity());

    let tokenizer_path = dir.path().join("tokenizer.json");
    let spaced = format!(
        "{} ",
        fs::read_to_string(&tokenizer_path).expect("readable")
    );
    fs::write(&tokenizer_path, spaced).expect("writable");
    let second = identity();
    assert_ne!(first, second);

    let mut rows = ROWS;
    rows[1][0] = 1.5;
    write_tensors(
        dir.path(),
        &[("embedding.weight", Dtype::F32, &[5, 2], f32_bytes(&rows))],
    );
    assert_ne!(second, identity());
}

#[test]
fn a_missing_or_ambiguous_file_is_named() {
    let dir = model();
    fs::copy(
        dir.path().join("table.safetensors"),
        dir.path().join("b.safetensors"),
    )
    .expect("copies");
    let two = refusal(dir.path());
    assert!(two.contains("b.safetensors, table.safetensors"), "{two}");

    for name in ["table.safetensors", "b.safetensors"] {
        fs::remove_file(dir.path().join(name)).expect("removes");
    }
    assert!(refusal(dir.path()).contains("*.safetensors"));
    let absent = dir.path().join("absent");
    assert!(refusal(&absent).contains("absent"));
}

#[test]
fn a_tokenizer_of_another_name_serves_if_it_is_the_only_one() {
    let dir = model();
    let path = dir.path().join("tokenizer.json");
    let other = dir.path().join("my_tokenizer_config.json");
    fs::rename(&path, &other).expect("renames");
    assert!(TableEmbedder::open(dir.path()).is_ok());
    fs::remove_file(&other).expect("removes");
    assert!(refusal(dir.path()).contains("tokenizer.json"));
    fs::write(&path, "{}").expect("writable");
    assert!(refusal(dir.path()).contains("not a tokenizer file"));
}

#[test]
fn a_table_that_does_not_fit_is_refused_at_opening() {
    let dir = model();
    let refused = |tensors: &[(&str, Dtype, &[usize], Vec<u8>)]| {
        write_tensors(dir.path(), tensors);
        refusal(dir.path())
    };
    let weights = "embedding.weight";

    let small = refused(&[(weights, Dtype::F32, &[3, 2], f32_bytes(&ROWS[..3]))]);
    assert!(
        small.contains("token id 4 is out of range") && small.contains("3 rows"),
        "{small}"
    );
    let whole = refused(&[(weights, Dtype::I32, &[5, 2], f32_bytes(&ROWS))]);
    assert!(whole.contains("I32, expected F32, F16 or BF16"), "{whole}");
    let flat = refused(&[(weights, Dtype::F32, &[10], f32_bytes(&ROWS))]);
    assert!(flat.contains("[10]"), "{flat}");
    let unnamed = refused(&[
        ("a", Dtype::F32, &[5, 2], f32_bytes(&ROWS)),
        ("b", Dtype::F32, &[5, 2], f32_bytes(&ROWS)),
    ]);
    assert!(unnamed.contains("found a, b"), "{unnamed}");

    let mut rows = ROWS;
    rows[3][1] = f32::NAN;
    let broken = refused(&[(weights, Dtype::F32, &[5, 2], f32_bytes(&rows))]);
    assert!(broken.contains("row 3"), "{broken}");

    fs::write(dir.path().join("table.safetensors"), b"not a table").expect("writable");
    assert!(refusal(dir.path()).contains("not a safetensors file"));
}

#[derive(Deserialize)]
struct Reference {
    text: String,
    vector: Vec<f32>,
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(x, y)| f64::from(*x) * f64::from(*y))
            .sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The reference is the mean in f64 over the ids that the Python `tokenizers` package
/// gives, for the table that `tests/static-table.sh` unpacks.
#[tokio::test]
async fn the_real_table_reproduces_its_reference() {
    let Some(dir) = std::env::var_os("HALOFY_STATIC_TABLE") else {
        return;
    };
    let embedder = TableEmbedder::open(dir).expect("opens");
    let reference: Vec<Reference> =
        serde_json::from_str(include_str!("static_reference.json")).expect("valid");
    let texts: Vec<String> = reference.iter().map(|r| r.text.clone()).collect();
    let vectors = embedder.embed(&texts).await.expect("embeds");
    assert_eq!(vectors.len(), 5);
    for (vector, expected) in vectors.iter().zip(&reference) {
        let cosine = cosine(vector, &expected.vector);
        assert!(cosine > 0.999_999, "{cosine} for {:?}", expected.text);
    }
    // The first two texts tell of one failed deployment, the third of bread.
    let related = cosine(&vectors[0], &vectors[1]);
    let unrelated = cosine(&vectors[0], &vectors[2]).max(cosine(&vectors[1], &vectors[2]));
    assert!(
        related > unrelated + 0.15,
        "related {related}, unrelated {unrelated}"
    );
}
