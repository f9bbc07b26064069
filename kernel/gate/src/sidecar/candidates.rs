//! Which rows a sidecar is sent: the one place where that is decided. A rule about what
//! may leave the process belongs into [`candidates_to_send`], after the arms and before
//! the limits. Sends nothing itself.

use std::collections::HashSet;
use std::future::Future;
use std::time::{Duration, Instant};

use halofy_cartridge::{CallStats, Row, View, ViewFailure};

/// One plan never carries a whole namespace away.
pub(super) const MAX_CANDIDATES: usize = 200;
/// Content of one plan: 4 MiB. A row that does not fit is passed over.
pub(super) const MAX_BYTES: usize = 4 << 20;
/// One call of the view, as for a cartridge.
const VIEW_TIME: Duration = Duration::from_millis(500);

/// The rows of `view` that an engine is given to rank for `text`, at most
/// [`MAX_CANDIDATES`], each once.
///
/// The engine can only reorder, so recall is decided here: the rows nearest in words and
/// nearest in meaning take turns, best first, so that each arm keeps at least half. Where
/// the embedder is down, or `text` has no vector, the newest rows stand in for the nearest:
/// the engine has an embedder of its own.
///
/// # Errors
/// When the store fails an arm: what is ranked would lack rows.
pub(super) async fn candidates_to_send(
    view: &dyn View,
    text: &str,
    stats: &mut CallStats,
) -> Result<Vec<Row>, ViewFailure> {
    let limit = MAX_CANDIDATES;
    let lexical = asked(stats, view.lexical_candidates(text.to_owned(), limit)).await?;
    handed_out(&lexical, stats);
    let other = match vector_of(view, text, stats).await {
        Some(vector) => {
            let near = asked(stats, view.vector_search(vector, limit)).await?;
            near.into_iter().map(|(row, _)| row).collect()
        }
        None => asked(stats, view.candidates(limit)).await?,
    };
    handed_out(&other, stats);
    Ok(within_limits(interleaved(lexical, other)))
}

/// The vector of `text`, if there is one that the view can search with.
async fn vector_of(view: &dyn View, text: &str, stats: &mut CallStats) -> Option<Vec<f32>> {
    let vectors = asked(stats, view.embed(vec![text.to_owned()])).await.ok()?;
    let usable = |vector: &Vec<f32>| {
        view.dimensions() == Some(vector.len()) && vector.iter().all(|x| x.is_finite())
    };
    vectors.into_iter().next().filter(usable)
}

/// Waits for an arm of the view, for as long as it may take.
async fn asked<T>(
    stats: &mut CallStats,
    arm: impl Future<Output = Result<T, ViewFailure>>,
) -> Result<T, ViewFailure> {
    let started = Instant::now();
    let answer = tokio::time::timeout(VIEW_TIME, arm).await;
    stats.host_calls += 1;
    stats.view += started.elapsed();
    answer.unwrap_or_else(|_| Err(ViewFailure::Unavailable("the view took too long".into())))
}

fn handed_out(rows: &[Row], stats: &mut CallStats) {
    stats.rows += rows.len() as u64;
    stats.bytes += rows.iter().map(|row| row.content.len() as u64).sum::<u64>();
}

/// One of each in turn, then the rest of the longer one.
fn interleaved(first: Vec<Row>, second: Vec<Row>) -> impl Iterator<Item = Row> {
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let turns = std::iter::from_fn(move || {
        let pair = [first.next(), second.next()];
        pair.iter().any(Option::is_some).then_some(pair)
    });
    turns.flatten().flatten()
}

fn within_limits(rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let fits = |row: &Row| {
        let new = seen.insert(row.id.clone()) && bytes + row.content.len() <= MAX_BYTES;
        bytes += if new { row.content.len() } else { 0 };
        new
    };
    rows.filter(fits).take(MAX_CANDIDATES).collect()
}
