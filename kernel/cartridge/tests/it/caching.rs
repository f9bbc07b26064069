//! C13: a cache of machine code that somebody touched is compiled again and never
//! run; an untouched one saves the compiler's work.

use std::fs;
use std::path::{Path, PathBuf};

use halofy_cartridge::{Cartridge, CartridgeHost, CodeCache, Compiler, Limits, LoadError};
use tempfile::TempDir;

use crate::compiling::compiler;
use crate::guest::{planning, returning};
use crate::memory_view::{MemoryView, host, query, short};

/// A cache directory, and compilers with and without a program behind it.
struct Fixture {
    place: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        Self { place }
    }

    fn directory(&self) -> PathBuf {
        self.place.path().join("code")
    }

    fn cache(&self) -> CodeCache {
        CodeCache::open(self.directory()).unwrap()
    }

    async fn compile(&self, host: &CartridgeHost, bytes: &[u8]) -> Cartridge {
        let compiler = compiler().with_cache(self.cache());
        host.load_untrusted(bytes, "probe", &compiler)
            .await
            .unwrap()
    }

    /// Loads from the cache, or fails: there is no compiler.
    async fn recall(&self, host: &CartridgeHost, bytes: &[u8]) -> Result<Cartridge, LoadError> {
        let compiler = Compiler::new("nowhere", [] as [&str; 0]).with_cache(self.cache());
        host.load_untrusted(bytes, "probe", &compiler).await
    }

    async fn assert_not_recalled(&self, host: &CartridgeHost, bytes: &[u8], what: &str) {
        let reason = self.recall(host, bytes).await.unwrap_err().reason();
        assert_eq!(reason, "compiler", "{what}");
    }

    fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory()).unwrap();
        let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries
    }
}

async fn hits(host: &CartridgeHost, cartridge: &Cartridge) -> usize {
    let view = MemoryView::of(&["one", "two"]);
    host.plan(cartridge, view, query(9, 99))
        .await
        .unwrap()
        .hits
        .len()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn an_untouched_entry_is_loaded_without_a_compiler() {
    let (fixture, host, bytes) = (Fixture::new(), host(), returning(&[(0, "1")]));
    fixture
        .assert_not_recalled(&host, &bytes, "an empty cache")
        .await;
    fixture.compile(&host, &bytes).await;
    let cartridge = fixture.recall(&host, &bytes).await.unwrap();
    assert_eq!(hits(&host, &cartridge).await, 1);
    // A host that starts anew finds it too.
    let host = crate::memory_view::host();
    fixture.recall(&host, &bytes).await.unwrap();
}

#[tokio::test]
async fn a_flipped_byte_anywhere_is_compiled_again() {
    let (fixture, host, bytes) = (Fixture::new(), host(), returning(&[(0, "1")]));
    fixture.compile(&host, &bytes).await;
    let [entry] = &fixture.entries()[..] else {
        panic!("one entry");
    };
    let size = fs::metadata(entry).unwrap().len() as usize;
    for at in [0, 100, size / 2, size - 33, size - 32, size - 1] {
        flip(entry, at);
        fixture
            .assert_not_recalled(&host, &bytes, "a flipped byte")
            .await;
        // Compiled anew over the altered one.
        let cartridge = fixture.compile(&host, &bytes).await;
        assert_eq!(hits(&host, &cartridge).await, 1);
        fixture.recall(&host, &bytes).await.unwrap();
    }
    for end in [0, 31, 32, size - 1] {
        let whole = fs::read(entry).unwrap();
        fs::write(entry, &whole[..end]).unwrap();
        fixture
            .assert_not_recalled(&host, &bytes, "a cut file")
            .await;
        fs::write(entry, whole).unwrap();
    }
    fixture.recall(&host, &bytes).await.unwrap();
}

#[tokio::test]
async fn two_entries_that_were_swapped_are_compiled_again() {
    let (fixture, host) = (Fixture::new(), host());
    let (one, two) = (returning(&[(0, "1")]), returning(&[(0, "1"), (1, "1")]));
    fixture.compile(&host, &one).await;
    fixture.compile(&host, &two).await;
    let [a, b] = &fixture.entries()[..] else {
        panic!("two entries");
    };
    let spare = fixture.place.path().join("spare");
    fs::rename(a, &spare).unwrap();
    fs::rename(b, a).unwrap();
    fs::rename(&spare, b).unwrap();
    for (bytes, expected) in [(&one, 1), (&two, 2)] {
        fixture
            .assert_not_recalled(&host, bytes, "a swapped entry")
            .await;
        let cartridge = fixture.compile(&host, bytes).await;
        assert_eq!(hits(&host, &cartridge).await, expected);
    }
}

#[tokio::test]
async fn a_link_or_a_pipe_in_an_entrys_place_is_not_followed() {
    let (fixture, host, bytes) = (Fixture::new(), host(), returning(&[(0, "1")]));
    fixture.compile(&host, &bytes).await;
    let entry = fixture.entries().remove(0);
    let elsewhere = fixture.place.path().join("elsewhere");
    fs::rename(&entry, &elsewhere).unwrap();
    // The right bytes, behind a link: whoever can change them is not asked.
    std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
    fixture.assert_not_recalled(&host, &bytes, "a link").await;
    let before = fs::read(&elsewhere).unwrap();
    fixture.compile(&host, &bytes).await;
    assert!(
        entry.symlink_metadata().unwrap().is_file(),
        "the link is replaced"
    );
    assert_eq!(
        fs::read(&elsewhere).unwrap(),
        before,
        "and not written through"
    );
    fixture.recall(&host, &bytes).await.unwrap();
    fs::remove_file(&entry).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&entry).status();
    assert!(made.unwrap().success());
    fixture.assert_not_recalled(&host, &bytes, "a pipe").await;
    fs::remove_file(&entry).unwrap();
    fs::create_dir(&entry).unwrap();
    fixture
        .assert_not_recalled(&host, &bytes, "a directory")
        .await;
    // Nor can it be written, which is no reason not to serve.
    let cartridge = fixture.compile(&host, &bytes).await;
    assert_eq!(hits(&host, &cartridge).await, 1);
}

#[tokio::test]
async fn other_settings_of_the_engine_do_not_find_the_entry() {
    let (fixture, bytes) = (Fixture::new(), planning(crate::guest::NOTHING));
    fixture.compile(&host(), &bytes).await;
    fixture.recall(&host(), &bytes).await.unwrap();
    let stack = Limits {
        wasm_stack: short().wasm_stack * 2,
        ..short()
    };
    let other = CartridgeHost::new(stack).unwrap();
    fixture
        .assert_not_recalled(&other, &bytes, "another stack")
        .await;
    let fuel = Limits {
        count_fuel: true,
        ..short()
    };
    let counting = CartridgeHost::new(fuel).unwrap();
    fixture
        .assert_not_recalled(&counting, &bytes, "code that counts")
        .await;
    // The child is told, so its code fits the engine that counts.
    fixture.compile(&counting, &bytes).await;
    fixture.recall(&counting, &bytes).await.unwrap();
}

#[tokio::test]
async fn only_the_newest_entries_are_kept() {
    let (fixture, host, bytes) = (Fixture::new(), host(), planning(crate::guest::NOTHING));
    fixture.compile(&host, &bytes).await;
    let old = std::time::SystemTime::UNIX_EPOCH;
    for n in 0..300 {
        let path = fixture.directory().join(format!("{n}.cwasm"));
        fs::File::create(path).unwrap().set_modified(old).unwrap();
    }
    fixture.compile(&host, &returning(&[(0, "1")])).await;
    assert_eq!(fixture.entries().len(), 256);
    fixture.recall(&host, &bytes).await.unwrap();
    fixture
        .recall(&host, &returning(&[(0, "1")]))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_lost_or_exposed_key_fits_no_entry() {
    let (fixture, host, bytes) = (Fixture::new(), host(), planning(crate::guest::NOTHING));
    fixture.compile(&host, &bytes).await;
    let key = fixture.place.path().join("code.key");
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(&key), mode(&fixture.directory())), (0o600, 0o700));
    assert_eq!(fs::metadata(&key).unwrap().len(), 32);
    fs::remove_file(&key).unwrap();
    fixture
        .assert_not_recalled(&host, &bytes, "a lost key")
        .await;
    fixture.compile(&host, &bytes).await;
    fixture.recall(&host, &bytes).await.unwrap();
    // Whoever could read the key could have written the entries.
    let exposed = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(&key, exposed).unwrap();
    fixture
        .assert_not_recalled(&host, &bytes, "an exposed key")
        .await;
    assert_eq!(mode(&key), 0o600);
    let elsewhere = fixture.place.path().join("elsewhere.key");
    fs::rename(&key, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &key).unwrap();
    assert!(
        CodeCache::open(fixture.directory()).is_err(),
        "a linked key"
    );
}
