//! The embedded database against its promises: one owner, kept data, survival.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use super::wal::WalSync;
use super::{Embedded, EmbeddedError, base};

/// Names the directory the child process of the kill test writes to.
const CHILD_DIR: &str = "HALOFY_TEST_EMBEDDED_DIR";

async fn connect(embedded: &Embedded) -> PgConnection {
    PgConnection::connect_with(&embedded.connect_options())
        .await
        .expect("connects")
}

async fn run(conn: &mut PgConnection, sql: &'static str) {
    sqlx::raw_sql(sql)
        .execute(conn)
        .await
        .expect("the statement runs");
}

async fn count(conn: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM kept")
        .fetch_one(conn)
        .await
        .expect("counts")
}

fn start(dir: &Path) -> Embedded {
    Embedded::start(dir).expect("starts")
}

#[tokio::test]
async fn data_are_kept_from_one_start_to_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let embedded = start(dir.path());
    let mut conn = connect(&embedded).await;
    run(
        &mut conn,
        "CREATE TABLE kept (v vector(2)); INSERT INTO kept VALUES ('[1,2]')",
    )
    .await;
    embedded.stop().expect("stops with a connection still open");

    let embedded = start(dir.path());
    assert_eq!(count(&mut connect(&embedded).await).await, 1);
}

#[tokio::test]
async fn a_directory_has_one_owner_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let embedded = start(dir.path());
    assert!(matches!(
        Embedded::start(dir.path()),
        Err(EmbeddedError::AlreadyRunning { .. })
    ));
    drop(embedded);
    start(dir.path()).stop().expect("starts and stops again");
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_still_works() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("d".repeat(120));
    for _ in 0..2 {
        let embedded = start(&dir);
        assert_eq!(
            fs::read_link(dir.join("run")).expect("a link"),
            embedded.socket_dir
        );
        connect(&embedded).await.close().await.expect("closes");
    }
}

#[tokio::test]
async fn a_client_that_leaves_mid_statement_ends_only_its_own_connection() {
    let dir = tempfile::tempdir().expect("a directory");
    let embedded = start(dir.path());
    let mut conn = connect(&embedded).await;
    run(&mut conn, "CREATE TABLE kept (v int)").await;
    run(&mut conn, "BEGIN; INSERT INTO kept VALUES (1)").await;
    let statement = sqlx::raw_sql("SELECT repeat('x', 9999) FROM pg_sleep(0.3)");
    let outcome =
        tokio::time::timeout(Duration::from_millis(50), statement.execute(&mut conn)).await;
    assert!(outcome.is_err(), "the statement is still running");
    drop(conn);
    assert_eq!(count(&mut connect(&embedded).await).await, 0, "rolled back");
}

#[tokio::test]
async fn many_callers_can_sync_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let embedded = start(dir.path());
    let mut conn = connect(&embedded).await;
    run(&mut conn, "CREATE TABLE kept (v int)").await;
    let embedded = Arc::new(embedded);
    let mut syncs = JoinSet::new();
    for _ in 0..64 {
        let embedded = Arc::clone(&embedded);
        syncs.spawn(async move { embedded.sync_wal().await });
    }
    for outcome in syncs.join_all().await {
        outcome.expect("syncs");
    }
    embedded.checkpoint(&mut conn).await.expect("checkpoints");
    assert!(!embedded.checkpoint_due());
}

#[tokio::test]
async fn a_failed_sync_is_never_forgotten() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("pg_wal");
    let wal = WalSync::start(&missing).expect("starts");
    assert!(matches!(wal.sync().await, Err(EmbeddedError::Sync(_))));
    fs::create_dir(&missing).expect("made after all");
    assert!(matches!(wal.sync().await, Err(EmbeddedError::Sync(_))));
}

/// The worst order a power cut can leave: of all that happened since the base, the log and
/// the new control file reached the disk, and no data page did.
#[tokio::test]
async fn recovery_does_not_trust_a_checkpoint_that_was_not_synced() {
    let (live, disk) = (
        tempfile::tempdir().expect("one"),
        tempfile::tempdir().expect("two"),
    );
    let embedded = start(live.path());
    let mut conn = connect(&embedded).await;
    run(
        &mut conn,
        "CREATE TABLE kept AS SELECT generate_series(1, 5000)",
    )
    .await;
    embedded.checkpoint(&mut conn).await.expect("a base");
    copy(live.path(), disk.path());
    run(
        &mut conn,
        "INSERT INTO kept SELECT generate_series(1, 5000)",
    )
    .await;
    run(&mut conn, "CHECKPOINT").await;
    run(&mut conn, "INSERT INTO kept VALUES (1)").await;
    embedded.sync_wal().await.expect("syncs");
    for part in ["pg_wal", "global/pg_control"] {
        let part = Path::new("pg").join(base::CLUSTER).join(part);
        copy(&live.path().join(&part), &disk.path().join(&part));
    }
    drop(embedded);

    let embedded = start(disk.path());
    assert_eq!(count(&mut connect(&embedded).await).await, 10_001);
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("made");
        for entry in fs::read_dir(from).expect("listed") {
            let name = entry.expect("an entry").file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else if from.is_file() {
        fs::copy(from, to).expect("copied");
    }
}

#[tokio::test]
async fn what_was_committed_survives_a_kill() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "embedded::tests::write_until_killed",
            "--nocapture",
        ])
        .env(CHILD_DIR, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let committed = BufReader::new(child.stdout.take().expect("piped"))
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("committed ")?.parse::<i64>().ok())
        .find(|rows| *rows >= 20)
        .expect("the child commits");
    child.kill().expect("killed");
    child.wait().expect("ended");

    let embedded = start(dir.path());
    assert!(count(&mut connect(&embedded).await).await >= committed);
}

#[tokio::test]
async fn write_until_killed() {
    // The child process of the test above; by itself it has nothing to do.
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let embedded = start(Path::new(&dir));
    let mut conn = connect(&embedded).await;
    run(&mut conn, "CREATE TABLE kept (v int)").await;
    for rows in 1.. {
        run(&mut conn, "INSERT INTO kept VALUES (1)").await;
        writeln!(std::io::stdout(), "\ncommitted {rows}").expect("the parent listens");
    }
}
