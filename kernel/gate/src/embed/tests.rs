//! The checks every vector passes, the configuration, and the hashing embedder.

use super::*;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn config(json: &str) -> Result<EmbedderConfig, serde_json::Error> {
    serde_json::from_str(json)
}

/// The message of the refusal to build.
fn refusal(json: &str) -> String {
    match config(json).expect("the JSON is well-formed").build() {
        Ok(embedder) => panic!("built {}", embedder.identity()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_vector_of_another_size_is_refused_naming_both_sizes() {
    let error = check_vectors(256, 1, &[vec![1.0; 768]]).expect_err("768 into 256");
    assert_eq!(
        error,
        EmbedError::WrongDimension {
            expected: 256,
            got: 768
        }
    );
    assert!(error.to_string().contains("256") && error.to_string().contains("768"));
    assert!(check_vectors(2, 1, &[vec![]]).is_err());
}

#[test]
fn a_vector_that_is_not_finite_or_all_zero_is_refused() {
    for bad in [
        [1.0, f32::NAN],
        [f32::INFINITY, 1.0],
        [1.0, f32::NEG_INFINITY],
        [0.0, -0.0],
    ] {
        let error = check_vectors(2, 2, &[vec![1.0, 0.0], bad.to_vec()]).expect_err("bad vector");
        assert!(
            matches!(&error, EmbedError::InvalidVector(m) if m.contains("vector 1")),
            "{error}"
        );
    }
    assert_eq!(check_vectors(2, 1, &[vec![0.0, 1e-30]]), Ok(()));
}

#[test]
fn another_count_of_vectors_than_of_texts_is_refused_naming_both() {
    let error = check_vectors(1, 3, &[vec![1.0], vec![1.0]]).expect_err("two for three");
    assert_eq!(
        error,
        EmbedError::InvalidVector("expected 3 vectors, got 2".into())
    );
}

#[test]
fn normalising_survives_numbers_whose_square_does_not_fit() {
    for mut vector in [vec![3e30_f32, 4e30], vec![3e-30, 4e-30]] {
        normalise(&mut vector);
        assert!((vector[0] - 0.6).abs() < 1e-6 && (vector[1] - 0.8).abs() < 1e-6);
    }
}

#[test]
fn the_default_is_a_hash_of_256_numbers() {
    assert_eq!(
        config(r#"{"kind": "hash"}"#).expect("valid"),
        EmbedderConfig::default()
    );
    let embedder = EmbedderConfig::default().build().expect("builds");
    assert_eq!(embedder.identity(), "hash/256");
    assert_eq!(embedder.dimension(), 256);
    assert!(embedder.is_local());
}

#[test]
fn an_unknown_or_misplaced_key_is_an_error() {
    for json in [
        r#"{"kind": "hash", "dimensions": 3}"#,
        r#"{"kind": "static", "dir": "x", "dimension": 3}"#,
        r#"{"kind": "openai", "base_url": "http://x", "model": "m", "dimension": 3, "api_key": "k"}"#,
        r#"{"kind": "mystery"}"#,
        r#"{"kind": "openai", "base_url": "http://x", "model": "m"}"#,
    ] {
        assert!(config(json).is_err(), "{json}");
    }
}

#[test]
fn a_configuration_that_cannot_work_is_refused_at_building() {
    let openai = |rest: &str| {
        refusal(&format!(
            r#"{{"kind": "openai", "model": "m", "dimension": 3, {rest}}}"#
        ))
    };
    assert!(refusal(r#"{"kind": "hash", "dimension": 0}"#).contains("dimension"));
    assert!(refusal(r#"{"kind": "hash", "dimension": 16001}"#).contains("16000, got 16001"));
    assert!(refusal(r#"{"kind": "static", "dir": "no/such/dir"}"#).contains("no/such/dir"));
    assert!(openai(r#""base_url": "ftp://x""#).contains("http://"));
    assert!(openai(r#""base_url": "http://u:secret@x""#).contains("api_key_env"));
    assert!(openai(r#""base_url": "http://x?y=1""#).contains("query"));
    assert!(openai(r#""base_url": "http://x", "timeout_ms": 0"#).contains("timeout_ms"));
    let forever = openai(r#""base_url": "http://x", "timeout_ms": 18446744073709551615"#);
    assert!(forever.contains("600000"), "{forever}");
    assert!(openai(r#""base_url": "http://x", "api_version": "1""#).contains("api_version"));
    assert!(openai(r#""base_url": "http://x", "style": "azure""#).contains("api_version"));
    let unset = openai(r#""base_url": "http://x", "api_key_env": "HALOFY_TEST_NO_SUCH_KEY""#);
    assert!(unset.contains("HALOFY_TEST_NO_SUCH_KEY"), "{unset}");
}

#[tokio::test]
async fn the_hash_embeds_the_same_text_to_the_same_unit_vector() {
    let embedder = HashEmbedder::new(64).expect("valid");
    let batch = texts(&["the cat sat", "a dog ran", "the cat sat"]);
    let vectors = embedder.embed(&batch).await.expect("embeds");
    assert_eq!(vectors.len(), 3);
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
    for vector in &vectors {
        let norm: f32 = vector.iter().map(|number| number * number).sum();
        assert!((norm - 1.0).abs() < 1e-4, "{norm}");
    }
}

#[tokio::test]
async fn a_batch_for_the_blocking_pool_gives_the_same_vectors() {
    let embedder = HashEmbedder::new(64).expect("valid");
    let few = texts(&["the cat sat", "a dog ran"]);
    let many: Vec<String> = few.iter().cycle().take(2 * INLINE_BYTES).cloned().collect();
    let expected = embedder.embed(&few).await.expect("embeds");
    let vectors = embedder.embed(&many).await.expect("embeds");
    assert_eq!(vectors.len(), many.len());
    assert!(vectors.chunks(2).all(|pair| pair == expected));
}

#[tokio::test]
async fn a_text_without_words_is_refused_by_position() {
    let embedder = HashEmbedder::new(64).expect("valid");
    for empty in ["", " \n\t", "\u{3000}"] {
        let error = embedder
            .embed(&texts(&["words", empty]))
            .await
            .expect_err("empty text");
        assert_eq!(error, EmbedError::EmptyText { index: 1 });
    }
    assert_eq!(embedder.embed(&[]).await, Ok(vec![]));
}
