//! The functions of `scoped-view` as the guest calls them: count, clamp, check,
//! ask the view under a time-out, admit the rows.

use std::future::{Future, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use crate::admission::VIEW;
use crate::call_limits::Import;
use crate::error::Stop;
use crate::state::CallState;
use crate::view::{Row, View, ViewFailure, ViewFuture};
use crate::wire::{Candidate, EntityFact, ScoredCandidate, ViewError};

type Store<'a> = StoreContextMut<'a, CallState>;
/// Outside: ends the call. Inside: the guest's to handle.
type Answer<T> = wasmtime::Result<(Result<Vec<T>, ViewError>,)>;
type Answering<'a, T> = Box<dyn Future<Output = Answer<T>> + Send + 'a>;

/// Defines the view in `linker`.
pub(crate) fn define(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    let mut view = linker.instance(VIEW)?;
    view.func_wrap("namespace", |store: Store<'_>, (): ()| namespace(store))?;
    view.func_wrap_async("candidates", candidates)?;
    view.func_wrap_async("lexical-candidates", lexical_candidates)?;
    view.func_wrap_async("vector-search", vector_search)?;
    view.func_wrap_async("embed", embed)?;
    view.func_wrap_async("concepts", concepts)?;
    view.func_wrap_async("entity-facts", entity_facts)
}

fn namespace(mut store: Store<'_>) -> wasmtime::Result<(String,)> {
    let state = store.data_mut();
    state.count_import()?;
    let view = AssertUnwindSafe(&state.view);
    let name = catch_unwind(|| view.namespace().to_owned());
    Ok((name.map_err(|_| Stop::ViewPanicked("namespace"))?,))
}

fn candidates(mut store: Store<'_>, (limit,): (u32,)) -> Answering<'_, Candidate> {
    Box::new(async move {
        let limit = clamp(&store, limit);
        let rows = ask(&mut store, Import::Candidates, move |view| {
            view.candidates(limit)
        })
        .await?;
        Ok((rows.and_then(|rows| hand_out_plain(&mut store, rows, limit)),))
    })
}

fn lexical_candidates(
    mut store: Store<'_>,
    (query, limit): (String, u32),
) -> Answering<'_, Candidate> {
    Box::new(async move {
        let limit = clamp(&store, limit);
        let check = text_fits(&store, &query);
        let rows = ask(&mut store, Import::LexicalCandidates, move |view| {
            checked(check, || view.lexical_candidates(query, limit))
        });
        let rows = rows.await?;
        Ok((rows.and_then(|rows| hand_out_plain(&mut store, rows, limit)),))
    })
}

fn vector_search(
    mut store: Store<'_>,
    (embedding, k): (Vec<f32>, u32),
) -> Answering<'_, ScoredCandidate> {
    Box::new(async move {
        let k = clamp(&store, k);
        let rows = ask(&mut store, Import::VectorSearch, move |view| {
            let check = embedding_fits(view.dimensions(), &embedding);
            checked(check, || view.vector_search(embedding, k))
        });
        let rows = rows.await?;
        Ok((rows.and_then(|rows| hand_out_scored(&mut store, rows, k)),))
    })
}

fn concepts(mut store: Store<'_>, (query, k): (String, u32)) -> Answering<'_, ScoredCandidate> {
    Box::new(async move {
        let k = clamp(&store, k);
        let check = text_fits(&store, &query);
        let rows = ask(&mut store, Import::Concepts, move |view| {
            checked(check, || view.concepts(query, k))
        });
        let rows = rows.await?;
        Ok((rows.and_then(|rows| hand_out_scored(&mut store, rows, k)),))
    })
}

fn entity_facts(mut store: Store<'_>, (mention, hops): (String, u8)) -> Answering<'_, EntityFact> {
    Box::new(async move {
        let limit = store.data().limits.window as usize;
        let check = text_fits(&store, &mention).and_then(|()| hops_fit(hops));
        let rows = ask(&mut store, Import::EntityFacts, move |view| {
            checked(check, || view.entity_facts(mention, hops))
        });
        let rows = rows.await?;
        let size = |row: &Row, entity: &Arc<str>| row.content.len() + entity.len();
        Ok((rows.and_then(|rows| {
            hand_out(&mut store, rows, limit, size, |handle, content, entity| {
                EntityFact {
                    handle,
                    content,
                    entity,
                }
            })
        }),))
    })
}

fn embed(mut store: Store<'_>, (texts,): (Vec<String>,)) -> Answering<'_, Vec<f32>> {
    Box::new(async move {
        let count = texts.len();
        let check = texts_fit(&mut store, &texts);
        let vectors = ask(&mut store, Import::Embed, move |view| {
            checked(check, || match texts.is_empty() {
                true => Box::pin(ready(Ok(Vec::new()))),
                false => view.embed(texts),
            })
        });
        let vectors = vectors.await?;
        Ok((vectors.and_then(|vectors| hand_out_vectors(&mut store, vectors, count)),))
    })
}

/// Counts the call, then puts `question` to the view under the call's time-out.
/// A panic of the view ends this call and nothing else.
async fn ask<T, F>(
    store: &mut Store<'_>,
    import: Import,
    question: F,
) -> wasmtime::Result<Result<T, ViewError>>
where
    F: for<'v> FnOnce(&'v dyn View) -> ViewFuture<'v, T> + Send,
    T: Send,
{
    let state = store.data_mut();
    let time = state.begin_import(import)?;
    let view = Arc::clone(&state.view);
    let began = Instant::now();
    state.used.asked = Some(began);
    let asking = AssertUnwindSafe(async { question(&*view).await }).catch_unwind();
    let answer = tokio::time::timeout(time, asking).await;
    let used = &mut store.data_mut().used;
    used.view_time += began.elapsed();
    used.asked = None;
    match answer {
        Err(_) => Err(store.data().blame(import, time).into()),
        Ok(Err(_)) => Err(Stop::ViewPanicked(import.as_str()).into()),
        Ok(Ok(answer)) => Ok(answer.map_err(ViewError::from)),
    }
}

fn checked<'v, T: Send + 'v>(
    check: Result<(), ViewFailure>,
    question: impl FnOnce() -> ViewFuture<'v, T>,
) -> ViewFuture<'v, T> {
    match check {
        Ok(()) => question(),
        Err(failure) => Box::pin(ready(Err(failure))),
    }
}

fn hand_out_plain(
    store: &mut Store<'_>,
    rows: Vec<Row>,
    limit: usize,
) -> Result<Vec<Candidate>, ViewError> {
    let rows = rows.into_iter().map(|row| (row, ())).collect();
    let size = |row: &Row, (): &()| row.content.len();
    hand_out(store, rows, limit, size, |handle, content, ()| Candidate {
        handle,
        content,
    })
}

fn hand_out_scored(
    store: &mut Store<'_>,
    rows: Vec<(Row, f64)>,
    limit: usize,
) -> Result<Vec<ScoredCandidate>, ViewError> {
    let size = |row: &Row, _: &f64| row.content.len();
    hand_out(store, rows, limit, size, |handle, content, score| {
        ScoredCandidate {
            handle,
            content,
            score,
        }
    })
}

/// Charges all rows, then admits them: a list that is refused admits nothing.
fn hand_out<X, T>(
    store: &mut Store<'_>,
    mut rows: Vec<(Row, X)>,
    limit: usize,
    size: impl Fn(&Row, &X) -> usize,
    wire: impl Fn(u32, Arc<str>, X) -> T,
) -> Result<Vec<T>, ViewError> {
    rows.truncate(limit);
    let bytes: usize = rows.iter().map(|(row, extra)| size(row, extra)).sum();
    let state = store.data_mut();
    state.charge(rows.len() as u64, bytes as u64)?;
    state.table.reserve(rows.len());
    let admitted = rows.into_iter().map(|(row, extra)| {
        let content = Arc::clone(&row.content);
        wire(state.table.admit(row), content, extra)
    });
    Ok(admitted.collect())
}

fn hand_out_vectors(
    store: &mut Store<'_>,
    vectors: Vec<Vec<f32>>,
    count: usize,
) -> Result<Vec<Vec<f32>>, ViewError> {
    if vectors.len() != count {
        let why = format!("{count} texts gave {} vectors", vectors.len());
        return Err(ViewError::Unavailable(why));
    }
    if vectors.iter().flatten().any(|x| !x.is_finite()) {
        let why = "the embedder gave a number that is not finite".to_owned();
        return Err(ViewError::Unavailable(why));
    }
    let numbers: usize = vectors.iter().map(Vec::len).sum();
    let bytes = (numbers * size_of::<f32>()) as u64;
    store.data_mut().charge(0, bytes)?;
    Ok(vectors)
}

/// Host to guest is not metered by the engine, so the size is bounded before the
/// view allocates anything.
fn clamp(store: &Store<'_>, wanted: u32) -> usize {
    wanted.min(store.data().limits.window) as usize
}

fn text_fits(store: &Store<'_>, text: &str) -> Result<(), ViewFailure> {
    let (size, limit) = (text.len(), store.data().limits.text);
    if size > limit {
        let why = format!("a text of {size} bytes, the limit is {limit}");
        return Err(ViewFailure::InvalidArgument(why));
    }
    Ok(())
}

fn hops_fit(hops: u8) -> Result<(), ViewFailure> {
    if matches!(hops, 1 | 2) {
        return Ok(());
    }
    let why = format!("hops is 1 or 2, not {hops}");
    Err(ViewFailure::InvalidArgument(why))
}

fn embedding_fits(dimensions: Option<usize>, embedding: &[f32]) -> Result<(), ViewFailure> {
    let found = embedding.len();
    let why = match dimensions {
        Some(expected) if expected != found => {
            format!("an embedding of {found} numbers, the stored ones have {expected}")
        }
        _ if embedding.iter().any(|x| !x.is_finite()) => {
            "an embedding with a number that is not finite".to_owned()
        }
        _ if embedding.iter().all(|x| *x == 0.0) => "an embedding of zeros".to_owned(),
        _ => return Ok(()),
    };
    Err(ViewFailure::InvalidArgument(why))
}

fn texts_fit(store: &mut Store<'_>, texts: &[String]) -> Result<(), ViewFailure> {
    let state = store.data_mut();
    let (count, most) = (texts.len(), state.limits.embed_texts);
    if count > most {
        let why = format!("{count} texts, the limit is {most}");
        return Err(ViewFailure::InvalidArgument(why));
    }
    let bytes: usize = texts.iter().map(String::len).sum();
    state.used.embed_bytes += bytes as u64;
    let limit = state.limits.embed_bytes;
    if state.used.embed_bytes > limit {
        let why = format!("this call may embed {limit} bytes");
        return Err(ViewFailure::Limit(why));
    }
    Ok(())
}
