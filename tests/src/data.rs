//! Where a kernel's data are: made fresh, removed when nobody needs them any more.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use halofy_store::Location;
use halofy_store::testing::{RawRows, raw_sql_at};
use tempfile::TempDir;

/// Names the variable with the URL of a Postgres server on which databases may be
/// made. Without it, kernels run on the embedded database.
pub const DATABASE_URL: &str = "HALOFY_TEST_DATABASE_URL";

/// A store of one or more kernels.
#[derive(Debug)]
pub struct Data {
    dir: TempDir,
    server: Option<Database>,
}

#[derive(Debug)]
struct Database {
    admin: String,
    name: String,
    url: String,
}

impl Data {
    /// An empty one.
    pub async fn fresh() -> Arc<Self> {
        let server = match std::env::var(DATABASE_URL) {
            Ok(admin) => Some(create_database(admin).await),
            Err(_) => None,
        };
        Arc::new(Self::at(server))
    }

    /// An empty directory for the embedded database, whatever the environment says.
    pub fn embedded() -> Arc<Self> {
        Arc::new(Self::at(None))
    }

    fn at(server: Option<Database>) -> Self {
        let dir = tempfile::Builder::new().prefix("halofy-").tempdir();
        let dir = dir.expect("a temporary directory");
        Self { dir, server }
    }

    /// The data as a store's configuration names them.
    pub fn location(&self) -> Location {
        match &self.server {
            Some(database) => Location::Server(database.url.clone()),
            None => Location::Embedded(self.path()),
        }
    }

    /// Whether they are on a server.
    pub fn is_on_server(&self) -> bool {
        self.server.is_some()
    }

    /// The flags that lead the command to these data.
    pub fn flags(&self) -> Vec<String> {
        let data = ["--data".to_owned(), self.path().display().to_string()];
        match &self.server {
            Some(database) => {
                let server = ["--database-url".to_owned(), database.url.clone()];
                data.into_iter().chain(server).collect()
            }
            None => data.into(),
        }
    }

    /// A directory of these data's own, for files of a test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Ends every connection to the database and lets nobody in, or lets them in
    /// again. Only for data on a server.
    ///
    /// # Panics
    /// For embedded data.
    pub async fn let_in(&self, allowed: bool) {
        let database = self.server.as_ref().expect("data on a server");
        let Database { admin, name, .. } = database;
        sql_at(
            admin,
            &format!("alter database {name} allow_connections {allowed}"),
        )
        .await;
        if !allowed {
            let end = format!(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
            );
            sql_at(admin, &end).await;
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

async fn create_database(admin: String) -> Database {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("halofy_test_{}_{count}", std::process::id());
    sql_at(&admin, &format!("create database {name}")).await;
    let mut url: reqwest::Url = admin.parse().expect("the URL of the test server");
    url.set_path(&name);
    let url = url.into();
    Database { admin, name, url }
}

async fn sql_at(url: &str, sql: &str) -> RawRows {
    let done = raw_sql_at(url, sql).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

impl Drop for Database {
    fn drop(&mut self) {
        let Self { admin, name, .. } = self;
        let sql = format!("drop database if exists {name} with (force)");
        let drop_it = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime
                .expect("a runtime")
                .block_on(raw_sql_at(admin, &sql))
        };
        // On a thread of its own: this one may be inside a runtime.
        let dropped = std::thread::scope(|scope| scope.spawn(drop_it).join());
        if !matches!(dropped, Ok(Ok(_))) {
            eprintln!("the database {name} was left behind: {dropped:?}");
        }
    }
}
